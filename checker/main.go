// Command checker checks whether a recorded history of reads, writes and deletes is linearizable,
// key by key: whether all answers could have come from a single copy of the data that applied each
// operation at some instant between its call and its return.
//
//	checker [--html FILE] [--timeout DURATION] [HISTORY]
//
// The history consists of JSON lines (see history.go). Without an argument it is read from standard
// input. The first line of the output is the verdict. After a violation, a minimal part of the
// history that is not linearizable follows, also as JSON lines, and the key's history is drawn in
// the file --html.
//
// Exit status: 0 linearizable, 1 not linearizable, 2 unreadable history or no verdict in time.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/anishathalye/porcupine"
)

const (
	exitLinearizable = iota
	exitViolation
	exitUndecided
)

func main() {
	html := flag.String("html", "violation.html", "output file for the history of a key that is not linearizable")
	timeout := flag.Duration("timeout", time.Minute, "maximum time for one check of one key")
	flag.Parse()

	status, err := run(flag.Args(), *html, *timeout, os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "checker:", err)
	}
	os.Exit(status)
}

func run(arguments []string, html string, timeout time.Duration, out io.Writer) (int, error) {
	input := io.Reader(os.Stdin)
	if len(arguments) > 1 {
		return exitUndecided, fmt.Errorf("expected at most one history file, got %d", len(arguments))
	}
	if len(arguments) == 1 {
		file, err := os.Open(arguments[0])
		if err != nil {
			return exitUndecided, err
		}
		defer file.Close()
		input = file
	}
	history, err := readHistory(input)
	if err != nil {
		return exitUndecided, err
	}
	return report(history, html, timeout, out)
}

func report(history History, html string, timeout time.Duration, out io.Writer) (int, error) {
	started := time.Now()
	verdict := check(history, timeout)
	size := fmt.Sprintf("%d operations, %d keys, %d ms",
		len(history), len(history.byKey()), time.Since(started).Milliseconds())

	switch verdict.result {
	case porcupine.Ok:
		fmt.Fprintf(out, "linearizable: %s\n", size)
		return exitLinearizable, nil
	case porcupine.Unknown:
		fmt.Fprintf(out, "undecided: key %s: no verdict within %s; %s\n", verdict.key, timeout, size)
		return exitUndecided, nil
	}

	offending := shortest(verdict.prefix, timeout)
	fmt.Fprintf(out, "VIOLATION: key %s is not linearizable, as these %d operations show; %s\n",
		verdict.key, len(offending), size)
	lines := json.NewEncoder(out)
	for _, operation := range offending {
		if err := lines.Encode(operation); err != nil {
			return exitViolation, err
		}
	}
	if err := draw(verdict.prefix, html, timeout); err != nil {
		return exitViolation, fmt.Errorf("cannot draw the history: %w", err)
	}
	fmt.Fprintf(out, "drawn in %s\n", html)
	return exitViolation, nil
}
