package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Longer than any check takes on a busy machine.
const timeout = 5 * time.Minute

// judged runs the checker on a history written as "client op value outcome call return" lines.
func judged(t *testing.T, lines string) (status int, out, picture string) {
	t.Helper()
	var text strings.Builder
	for _, line := range strings.Split(strings.TrimSpace(lines), "\n") {
		fields := strings.Fields(line)
		if len(fields) != 6 {
			t.Fatalf("a line has 6 fields: %q", line)
		}
		fmt.Fprintf(&text, `{"client":%s,"key":"k","op":"%s","value":%s,"ok":%s,"call_ns":%s,"return_ns":%s}`+"\n",
			fields[0], fields[1], fields[2], fields[3], fields[4], fields[5])
	}
	history, err := readHistory(strings.NewReader(text.String()))
	if err != nil {
		t.Fatal(err)
	}
	var printed bytes.Buffer
	picture = filepath.Join(t.TempDir(), "violation.html")
	status, err = report(history, picture, timeout, &printed)
	if err != nil {
		t.Fatal(err)
	}
	return status, printed.String(), picture
}

// A check that tries whether each of these writes took effect would last for hours.
func TestUnknownWritesThatNoReadReturnedTakeNoTime(t *testing.T) {
	var history strings.Builder
	history.WriteString("0 write 1 true 0 10\n")
	for number := range 60 {
		fmt.Fprintf(&history, "%d write %d \"unknown\" %d 100\n", number+1, number+100, number+20)
	}
	history.WriteString("0 write 2 true 200 210\n0 read 1 true 220 230\n")
	if status, out, _ := judged(t, history.String()); status != exitViolation {
		t.Error(out)
	}
}

func TestHistories(t *testing.T) {
	tests := map[string]struct {
		history string
		status  int
	}{
		"overlapping operations take effect in either order": {`
			0 write 1 true 0 30
			1 write 2 true 10 40
			2 read 2 true 41 42
			3 read 2 true 43 44`, exitLinearizable},
		"a read overlapping a write sees the old or the new value": {`
			0 write 1 true 0 10
			0 write 2 true 20 60
			1 read 1 true 30 40
			2 read 2 true 41 50`, exitLinearizable},
		"a read after the answered write is stale": {`
			0 write 1 true 0 10
			0 write 2 true 20 30
			1 read 1 true 40 50`, exitViolation},
		"values do not go back and forth": {`
			0 write 1 true 0 10
			0 write 2 true 20 90
			1 read 2 true 30 40
			1 read 1 true 50 60`, exitViolation},
		"a key is absent before the first write and after a delete": {`
			0 read null true 0 1
			0 write 1 true 2 3
			0 delete null true 4 5
			0 read null true 6 7`, exitLinearizable},
		"a deleted value is gone": {`
			0 write 1 true 0 10
			0 delete null true 20 30
			1 read 1 true 40 50`, exitViolation},
		"an unknown write may take effect late": {`
			0 write 1 true 0 10
			1 write 2 "unknown" 20 25
			0 read 1 true 30 40
			0 read 2 true 50 60`, exitLinearizable},
		"an unknown write may never take effect": {`
			0 write 1 true 0 10
			1 write 2 "unknown" 20 25
			0 read 1 true 30 40
			0 read 1 true 50 60`, exitLinearizable},
		"an unknown delete takes effect once": {`
			0 write 1 true 0 10
			1 delete null "unknown" 20 25
			0 read null true 30 40
			0 read 1 true 50 60`, exitViolation},
		"an unknown write does not take effect before its call": {`
			0 read 2 true 0 10
			1 write 2 "unknown" 20 25`, exitViolation},
		"a failed write has no effect": {`
			0 write 1 true 0 10
			1 write 2 false 20 25
			0 read 2 true 30 40`, exitViolation},
		"a read without an answer says nothing": {`
			0 write 1 true 0 10
			1 read null "unknown" 20 25
			1 read null false 30 35`, exitLinearizable},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if status, out, _ := judged(t, test.history); status != test.status {
				t.Errorf("expected status %d, got %d: %s", test.status, status, out)
			}
		})
	}
}

// busyHistory is what clients of a correct store could record: every operation takes effect at one
// instant between its call and its return.
func busyHistory(random *rand.Rand, operations, keys int) History {
	values := make(map[string]string)
	var history History
	for index := range operations {
		instant := int64(index) * 10
		name := fmt.Sprintf(`"key %d"`, random.Intn(keys))
		operation := Operation{
			Client: json.RawMessage(fmt.Sprint(index % 8)),
			Key:    json.RawMessage(name),
			// Up to 30 either side, so that a client's next operation never overlaps its last.
			CallNS:   instant - random.Int63n(30),
			ReturnNS: instant + random.Int63n(30),
		}
		switch random.Intn(10) {
		case 0:
			operation.Op = "delete"
			values[name] = absent
		case 1, 2:
			operation.Op = "write"
			values[name] = fmt.Sprint(index)
		default:
			operation.Op = "read"
		}
		value, present := values[name]
		if !present {
			value = absent
		}
		operation.Value = json.RawMessage(value)
		history = append(history, operation)
	}
	return history
}

func TestInjectedStaleReadIsFlagged(t *testing.T) {
	history := busyHistory(rand.New(rand.NewSource(1)), 20000, 50)
	if verdict := check(history, timeout); verdict.result != "Ok" {
		t.Fatalf("a correct history was judged %s at key %s", verdict.result, verdict.key)
	}

	last := history[len(history)-1].ReturnNS
	stale := []Operation{
		{Op: "write", Value: json.RawMessage(`"old"`), CallNS: last + 10, ReturnNS: last + 20},
		{Op: "write", Value: json.RawMessage(`"new"`), CallNS: last + 30, ReturnNS: last + 40},
		{Op: "read", Value: json.RawMessage(`"old"`), CallNS: last + 50, ReturnNS: last + 60},
	}
	for _, operation := range stale {
		operation.Client, operation.Key = json.RawMessage("0"), json.RawMessage(`"key 7"`)
		history = append(history, operation)
	}

	var out bytes.Buffer
	picture := filepath.Join(t.TempDir(), "violation.html")
	status, err := report(history, picture, timeout, &out)
	if err != nil || status != exitViolation {
		t.Fatalf("expected a violation, got %d, %v: %s", status, err, &out)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 2+len(stale) || !strings.Contains(lines[0], "key 7") {
		t.Fatalf("expected the verdict, the three operations and the picture, got\n%s", &out)
	}
	for index, expected := range []string{`"old"`, `"new"`, `"old"`} {
		if !strings.Contains(lines[1+index], `"value":`+expected) {
			t.Errorf("expected a line about %s, got %s", expected, lines[1+index])
		}
	}
	page, err := os.ReadFile(picture)
	if err != nil || !bytes.Contains(page, []byte("<html")) {
		t.Errorf("expected an HTML page, got %d bytes, %v", len(page), err)
	}
}

func TestOffendingPartIsItselfAReadableHistory(t *testing.T) {
	_, out, _ := judged(t, `
		0 write 1 true 0 10
		0 write 2 true 20 30
		1 read 2 true 31 35
		1 read 1 true 40 50
		2 write 3 "unknown" 41 42
		2 write 4 true 60 70`)
	lines := strings.Split(out, "\n")
	history, err := readHistory(strings.NewReader(strings.Join(lines[1:4], "\n")))
	if err != nil {
		t.Fatal(err)
	}
	if verdict := check(history, timeout); verdict.result != "Illegal" || len(history) != 3 {
		t.Errorf("expected three offending operations, got\n%s", out)
	}
}

func TestMalformedLinesAreNamed(t *testing.T) {
	tests := map[string]string{
		`{"client":0,"key":"k","op":"read","call_ns":1,"return_ns":2}`:              "ok: missing",
		`{"client":0,"key":"k","op":"cas","ok":true,"call_ns":1,"return_ns":2}`:     "op: expected",
		`{"client":0,"key":"k","op":"read","ok":"maybe","call_ns":1,"return_ns":2}`: "ok: expected",
		`{"client":0,"key":"k","op":"read","ok":true,"call_ns":3,"return_ns":2}`:    "before its call",
		`{"client":0,"op":"read","ok":true,"call_ns":1,"return_ns":2}`:              "key: missing",
		`not JSON`: "invalid",
	}
	for line, expected := range tests {
		_, err := readHistory(strings.NewReader("\n" + line))
		if err == nil || !strings.Contains(err.Error(), "line 2: ") || !strings.Contains(err.Error(), expected) {
			t.Errorf("%s: expected %q, got %v", line, expected, err)
		}
	}
}
