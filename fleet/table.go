package fleet

import (
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/toolbreaker/toolbreaker/breaker"
)

const (
	// closedKept is how many closed keys the table keeps, so that a worker that was
	// out of reach learns that an outage has ended.
	closedKept = 32
	// maxPolls bounds the number of open polls.
	maxPolls = 1000
)

// Entry is one row of the board.
type Entry struct {
	Key     breaker.Key     `json:"key"`
	Verdict breaker.Verdict `json:"verdict"`
	// Dismissed: the suspicion was wrong, and the dependency is not down.
	Dismissed bool `json:"dismissed,omitempty"`
	// Outliers are the workers whose own calls trip the rule although the dependency
	// is not down.
	Outliers []string `json:"outliers,omitempty"`
	// OneIn: about one in OneIn workers reports on the ramp; see [Sampled].
	OneIn int `json:"one_in,omitempty"`
}

// Table is the content of the board: the newest verdict of each key that is not
// closed, and of the most recently closed keys.
type Table struct {
	// Version grows with each change of the table, also when a terminated board is
	// started again.
	Version int64 `json:"version"`
	// Entries are sorted by key.
	Entries []Entry `json:"entries"`
	// Polls are the open polls, at most one for each key.
	Polls []Poll `json:"polls,omitempty"`
}

// open adds a poll, or replaces an older one of its key. It returns whether the
// table changed.
func (t *Table) open(p Poll) bool {
	if p.Key.Validate() != nil {
		return false
	}
	for _, e := range t.Entries {
		if e.Key == p.Key && e.Verdict.Epoch >= p.Round {
			return false
		}
	}
	for i := range t.Polls {
		if t.Polls[i].Key == p.Key {
			if p.Round <= t.Polls[i].Round {
				return false
			}
			t.Polls[i] = p
			return true
		}
	}
	if len(t.Polls) >= maxPolls {
		return false
	}
	t.Polls = append(t.Polls, p)
	return true
}

// set adds or replaces the entry of a key, and removes the poll that it ends. An
// entry that is not newer than the table's has no effect. It returns whether the
// table changed.
func (t *Table) set(e Entry) bool {
	if !t.put(e) {
		return false
	}
	t.Polls = slices.DeleteFunc(t.Polls, func(p Poll) bool {
		return p.Key == e.Key && p.Round < e.Verdict.Epoch
	})
	return true
}

func (t *Table) put(e Entry) bool {
	at := sort.Search(len(t.Entries), func(i int) bool { return t.Entries[i].Key.String() >= e.Key.String() })
	if at < len(t.Entries) && t.Entries[at].Key == e.Key {
		if e.Verdict.Epoch <= t.Entries[at].Verdict.Epoch {
			return false
		}
		t.Entries[at] = e
		return true
	}
	t.Entries = append(t.Entries, Entry{})
	copy(t.Entries[at+1:], t.Entries[at:])
	t.Entries[at] = e
	return true
}

// prune drops expired polls, and the oldest closed entries past closedKept.
func (t *Table) prune(now time.Time) {
	t.Polls = slices.DeleteFunc(t.Polls, func(p Poll) bool { return !now.Before(p.Until) })
	for {
		closed, oldest := 0, -1
		for i, e := range t.Entries {
			if e.Verdict.State == breaker.Closed {
				closed++
				if oldest < 0 || e.Verdict.Epoch < t.Entries[oldest].Verdict.Epoch {
					oldest = i
				}
			}
		}
		if closed <= closedKept {
			return
		}
		t.Entries = append(t.Entries[:oldest], t.Entries[oldest+1:]...)
	}
}

// markdown returns the current details of the board for the Temporal UI.
func (t Table) markdown() string {
	if len(t.Entries)+len(t.Polls) == 0 {
		return "No outage. Every breaker is **closed**."
	}
	var s strings.Builder
	s.WriteString("| dependency | region | state | since | next | reason |\n| --- | --- | --- | --- | --- | --- |\n")
	for _, e := range t.Entries {
		v := e.Verdict
		next := ""
		if !v.Next.IsZero() {
			next = v.Next.UTC().Format(time.TimeOnly)
		}
		state := v.State.String()
		if v.State == breaker.Recovering {
			state = fmt.Sprintf("%s (%d%%)", state, v.Share)
		}
		reason := v.Reason.String()
		if len(e.Outliers) > 0 {
			reason = "only these workers fail: " + strings.Join(e.Outliers, ", ")
		}
		since := ""
		if !v.Since.IsZero() {
			since = v.Since.UTC().Format(time.TimeOnly)
		}
		fmt.Fprintf(&s, "| %s | %s | **%s** | %s | %s | %s |\n", e.Key.Dependency, e.Key.Region, state, since, next, reason)
	}
	for _, p := range t.Polls {
		fmt.Fprintf(&s, "| %s | %s | **suspected** | | | polling one worker in %d |\n", p.Key.Dependency, p.Key.Region, max(p.OneIn, 1))
	}
	return s.String()
}
