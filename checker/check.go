package main

import (
	"fmt"
	"math"
	"sort"
	"time"

	"github.com/anishathalye/porcupine"
)

type input struct{ op, value string }

// register models one key that is read, written and deleted; its state is the value as JSON.
var register = porcupine.Model{
	Init: func() any { return absent },
	Step: func(state, called, returned any) (bool, any) {
		operation := called.(input)
		if operation.op == "read" {
			return operation.value == state, state
		}
		return true, operation.value
	},
	DescribeOperation: func(called, returned any) string {
		operation := called.(input)
		return fmt.Sprintf("%s %s%s", operation.op, operation.value, returned)
	},
	DescribeState: func(state any) string { return state.(string) },
}

type verdict struct {
	result porcupine.CheckResult
	key    string
	// prefix is the history of key up to the first return with which it is not linearizable.
	prefix History
}

// check judges all keys in order, until the first violation.
func check(history History, timeout time.Duration) verdict {
	parts := history.byKey()
	keys := make([]string, 0, len(parts))
	for key := range parts {
		keys = append(keys, key)
	}
	sort.Strings(keys)

	overall := verdict{result: porcupine.Ok}
	for _, key := range keys {
		switch judge(parts[key], timeout) {
		case porcupine.Illegal:
			return verdict{porcupine.Illegal, key, firstIllegalPrefix(parts[key], timeout)}
		case porcupine.Unknown:
			overall = verdict{result: porcupine.Unknown, key: key}
		}
	}
	return overall
}

func judge(history History, timeout time.Duration) porcupine.CheckResult {
	return porcupine.CheckOperationsTimeout(register, operations(history), timeout)
}

// draw writes the history of one key and its longest linearizations as an HTML page.
func draw(history History, path string, timeout time.Duration) error {
	_, info := porcupine.CheckOperationsVerbose(register, operations(history), timeout)
	return porcupine.VisualizePath(register, info, path)
}

// operations translates the history of one key for porcupine.
//
// Failed operations and reads without an answer are omitted: they had no effect. So are writes of
// unknown outcome whose value no read returned, because each doubles the time of a check: if the
// history is linearizable with such a write, it is without. Another write or delete of unknown
// outcome returns after all other operations: an effect at the end, which no read observes, is
// equivalent to no effect.
func operations(history History) []porcupine.Operation {
	end := int64(math.MinInt64)
	read := make(map[string]bool)
	for _, operation := range history {
		end = max(end, operation.CallNS, operation.ReturnNS)
		if operation.Op == "read" && operation.OK == Succeeded {
			read[string(operation.Value)] = true
		}
	}
	rows := make(map[string]int)
	row := func(name string) int {
		if _, known := rows[name]; !known {
			rows[name] = len(rows)
		}
		return rows[name]
	}

	var translated []porcupine.Operation
	for index, operation := range history {
		if operation.OK == Failed || operation.OK == Uncertain && operation.Op == "read" {
			continue
		}
		if operation.OK == Uncertain && operation.Op == "write" && !read[string(operation.Value)] {
			continue
		}
		client, returned, note := row(string(operation.Client)), operation.ReturnNS, ""
		if operation.OK == Uncertain {
			// Its client continues before it returns, so it has a row of its own in the drawing.
			client, returned, note = row(fmt.Sprintf("uncertain %d", index)), end+1, " (unknown)"
		}
		translated = append(translated, porcupine.Operation{
			ClientId: client,
			Input:    input{operation.Op, string(operation.Value)},
			Call:     operation.CallNS,
			Output:   note,
			Return:   returned,
		})
	}
	return translated
}
