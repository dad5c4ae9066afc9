package fleet

import (
	"time"

	"github.com/toolbreaker/toolbreaker/breaker"
)

// Whisper is a sign too faint to be a suspicion: a worker's calls to a key go
// wrong, and it has too few of them to say more.
type Whisper struct {
	Key    breaker.Key `json:"key"`
	Worker string      `json:"worker"`
}

// Whispers tells when the whispers about a key are more than noise. What noise
// is, it learns: the busiest minute of the last hour that was no outage. The
// zero value has heard nothing. It counts in whole numbers, so that it comes to
// the same on every machine.
type Whispers struct {
	// Tens counts by ten seconds over two minutes; Now numbers the running ten.
	Tens [12]int `json:"tens"`
	Now  int64   `json:"now"`
	// Peaks is the busiest minute, by ten minutes over an hour.
	Peaks [6]int `json:"peaks"`
	// Deaf is until when whispers are only counted, Wrong how often in a row they
	// have been wrong.
	Deaf  time.Time `json:"deaf,omitzero"`
	Wrong int       `json:"wrong,omitempty"`
}

const (
	ten          = 10 * time.Second
	whisperAgain = 5 * time.Second
	// enough is how many whispers within a minute are a suspicion where none are
	// usual. Where some are, it takes twice as many more.
	enough = 3
	// deafFor is how long whispers are only counted after they have been wrong, and
	// twice as long each further time, up to maxDeaf. An outage of a thin fleet can
	// be suspected too early to be found.
	deafFor = 5 * time.Second
	maxDeaf = 10 * time.Minute
)

// Hear counts one whisper and tells whether they are a suspicion now.
func (w *Whispers) Hear(now time.Time) bool {
	w.advance(now)
	w.Tens[w.Now%int64(len(w.Tens))]++
	if now.Before(w.Deaf) {
		return false
	}
	usual := 0
	for _, p := range w.Peaks {
		usual = max(usual, p)
	}
	if w.minute(0) < enough+2*usual {
		return false
	}
	// One suspicion is enough for what is being whispered.
	w.Deaf = now.Add(ten)
	return true
}

// Dismissed learns that there was no outage: so much is noise.
func (w *Whispers) Dismissed(now time.Time) {
	w.advance(now)
	w.peak(w.minute(0))
	w.Deaf = now.Add(min(deafFor<<min(w.Wrong, 10), maxDeaf))
	w.Wrong++
}

// Convicted forgets the last minutes: they were no noise.
func (w *Whispers) Convicted() { *w = Whispers{Now: w.Now, Peaks: w.Peaks} }

// silent tells whether there is nothing to remember.
func (w *Whispers) silent(now time.Time) bool {
	w.advance(now)
	return w.Tens == [12]int{} && w.Peaks == [6]int{} && !now.Before(w.Deaf)
}

// minute is the sum of the six tens before the last skip ones.
func (w *Whispers) minute(skip int64) int {
	sum := 0
	for i := skip; i < skip+6 && i <= w.Now; i++ {
		sum += w.Tens[(w.Now-i)%int64(len(w.Tens))]
	}
	return sum
}

// advance moves on to now. A minute counts as usual once another one has passed
// after it: an outage that begins would otherwise hide behind itself.
func (w *Whispers) advance(now time.Time) {
	target := now.Unix() / int64(ten/time.Second)
	if target-w.Now >= 6*60 {
		*w = Whispers{Now: target, Deaf: w.Deaf}
		return
	}
	for w.Now < target {
		w.Now++
		w.Tens[w.Now%int64(len(w.Tens))] = 0
		if w.Now%60 == 0 {
			w.Peaks[w.Now/60%int64(len(w.Peaks))] = 0
		}
		w.peak(w.minute(6))
	}
}

func (w *Whispers) peak(minute int) {
	p := &w.Peaks[w.Now/60%int64(len(w.Peaks))]
	*p = max(*p, minute)
}

// WhisperAgain is how long a worker keeps silent about a key after its n-th
// whisper or suspicion in a row, counted from 0, that came to nothing: in the
// long run noise costs one signal a worker an hour.
func WhisperAgain(n int) time.Duration { return min(whisperAgain<<min(n, 20), time.Hour) }
