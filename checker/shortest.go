package main

import (
	"sort"
	"strconv"
	"time"

	"github.com/anishathalye/porcupine"
)

// firstIllegalPrefix cuts the history of one key at the earliest return with which it is illegal.
// Operations that have not returned by then have an unknown outcome.
func firstIllegalPrefix(history History, timeout time.Duration) History {
	var returns []int64
	for _, operation := range history {
		if operation.OK == Succeeded {
			returns = append(returns, operation.ReturnNS)
		}
	}
	sort.Slice(returns, func(a, b int) bool { return returns[a] < returns[b] })
	// An illegal prefix stays illegal when operations follow, so bisection finds the first one.
	first := sort.Search(len(returns)-1, func(index int) bool {
		return judge(until(history, returns[index]), timeout) == porcupine.Illegal
	})
	return until(history, returns[first])
}

func until(history History, instant int64) History {
	var prefix History
	for _, operation := range history {
		if operation.CallNS > instant {
			continue
		}
		if operation.OK == Succeeded && operation.ReturnNS > instant {
			operation.OK = Uncertain
		}
		prefix = append(prefix, operation)
	}
	return prefix
}

// shortest omits from an illegal history of one key all operations without which it stays illegal.
//
// Only two kinds of omission keep the result valid for the whole history: a read, and all
// operations on one value together. (Omitting only a write would make the reads of its value
// illegal.)
func shortest(history History, timeout time.Duration) History {
	byValue := withoutGroups(history, timeout, func(operation Operation, _ int) string {
		return string(operation.Value)
	})
	return withoutGroups(byValue, timeout, func(operation Operation, index int) string {
		if operation.Op != "read" {
			return kept
		}
		return strconv.Itoa(index)
	})
}

// kept is the group of operations that are never omitted.
const kept = ""

// withoutGroups tries to omit runs of groups; it halves the runs down to single groups.
func withoutGroups(history History, timeout time.Duration, group func(Operation, int) string) History {
	members := make(map[string][]int)
	var groups []string
	for index, operation := range history {
		name := group(operation, index)
		if name != kept && members[name] == nil {
			groups = append(groups, name)
		}
		members[name] = append(members[name], index)
	}

	omitted := make([]bool, len(history))
	omit := func(run []string, omission bool) {
		for _, name := range run {
			for _, index := range members[name] {
				omitted[index] = omission
			}
		}
	}
	remaining := func() History {
		var rest History
		for index, operation := range history {
			if !omitted[index] {
				rest = append(rest, operation)
			}
		}
		return rest
	}

	for length := (len(groups) + 1) / 2; length > 0; length /= 2 {
		var needed []string
		for start := 0; start < len(groups); start += length {
			run := groups[start:min(start+length, len(groups))]
			omit(run, true)
			if judge(remaining(), timeout) != porcupine.Illegal {
				omit(run, false)
				needed = append(needed, run...)
			}
		}
		groups = needed
	}
	return remaining()
}
