package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"sort"
)

// lineBytesMax bounds one line of a history.
const lineBytesMax = 16 << 20

// Operation is one line of a history:
//
//	{"client":0,"key":"a","op":"write","value":1,"ok":true,"call_ns":10,"return_ns":20}
//
// client, key and value are any JSON; a read of a key that is absent has the value null. Every key
// is absent at first: a preloaded value is a write in the history. ok is true, false (it had no
// effect) or "unknown" (it may take effect at any time after its call, or never).
type Operation struct {
	Client   json.RawMessage `json:"client"`
	Key      json.RawMessage `json:"key"`
	Op       string          `json:"op"`
	Value    json.RawMessage `json:"value"`
	OK       Outcome         `json:"ok"`
	CallNS   int64           `json:"call_ns"`
	ReturnNS int64           `json:"return_ns"`
}

// Outcome is the client's knowledge of the effect of its operation.
type Outcome int

// The outcomes, in JSON: true, false and "unknown".
const (
	Succeeded Outcome = iota
	Failed
	Uncertain
)

var outcomes = map[string]Outcome{"true": Succeeded, "false": Failed, `"unknown"`: Uncertain}

// UnmarshalJSON reads true, false or "unknown".
func (outcome *Outcome) UnmarshalJSON(text []byte) error {
	value, known := outcomes[string(text)]
	if !known {
		return fmt.Errorf(`ok: expected true, false or "unknown", got %s`, text)
	}
	*outcome = value
	return nil
}

// MarshalJSON is the inverse of UnmarshalJSON.
func (outcome Outcome) MarshalJSON() ([]byte, error) {
	for text, value := range outcomes {
		if value == outcome {
			return []byte(text), nil
		}
	}
	return nil, fmt.Errorf("no outcome %d", int(outcome))
}

const absent = "null"

// History is a set of operations; their order is given by their times, not by their positions.
type History []Operation

func readHistory(input io.Reader) (History, error) {
	lines := bufio.NewScanner(input)
	lines.Buffer(nil, lineBytesMax)
	var history History
	for number := 1; lines.Scan(); number++ {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		operation, err := parseOperation(lines.Bytes())
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		history = append(history, operation)
	}
	return history, lines.Err()
}

func parseOperation(line []byte) (Operation, error) {
	operation := Operation{OK: -1}
	decoder := json.NewDecoder(bytes.NewReader(line))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&operation); err != nil {
		return operation, err
	}
	switch {
	case operation.Op != "read" && operation.Op != "write" && operation.Op != "delete":
		return operation, fmt.Errorf("op: expected read, write or delete, got %q", operation.Op)
	case operation.OK < 0:
		return operation, fmt.Errorf("ok: missing")
	case len(operation.Key) == 0:
		return operation, fmt.Errorf("key: missing")
	case operation.OK == Succeeded && operation.ReturnNS < operation.CallNS:
		return operation, fmt.Errorf("returned at %d, before its call at %d",
			operation.ReturnNS, operation.CallNS)
	}
	operation.Key = compact(operation.Key)
	operation.Value = compact(operation.Value)
	if operation.Op == "delete" {
		operation.Value = json.RawMessage(absent)
	}
	return operation, nil
}

// compact removes white space, so that equal values are equal bytes; no value becomes null.
func compact(value json.RawMessage) json.RawMessage {
	if len(value) == 0 {
		return json.RawMessage(absent)
	}
	var dense bytes.Buffer
	if err := json.Compact(&dense, value); err != nil {
		return value
	}
	return dense.Bytes()
}

// byKey splits the history, each part in the order of its calls.
func (history History) byKey() map[string]History {
	parts := make(map[string]History)
	for _, operation := range history {
		parts[string(operation.Key)] = append(parts[string(operation.Key)], operation)
	}
	for _, part := range parts {
		sort.SliceStable(part, func(a, b int) bool { return part[a].CallNS < part[b].CallNS })
	}
	return parts
}
