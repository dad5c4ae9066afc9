package breaker

import (
	"hash/maphash"
	"sync/atomic"
)

// table finds breakers by key without a lock. Registry.mu serialises writers. Only
// the next field of an entry is modified, and a removed entry keeps it, so that a
// reader at that entry still reaches the end.
type table struct {
	seed    maphash.Seed
	buckets atomic.Pointer[[]atomic.Pointer[entry]]
	size    int
}

type entry struct {
	breaker *Breaker
	next    atomic.Pointer[entry]
}

func newTable() *table {
	t := &table{seed: maphash.MakeSeed()}
	buckets := make([]atomic.Pointer[entry], 8)
	t.buckets.Store(&buckets)
	return t
}

func (t *table) hash(key Key) uint64 {
	return maphash.String(t.seed, key.Dependency) ^ maphash.String(t.seed, key.Region)*0x9e3779b97f4a7c15
}

func (t *table) find(key Key) *Breaker {
	buckets := *t.buckets.Load()
	for e := buckets[t.hash(key)&uint64(len(buckets)-1)].Load(); e != nil; e = e.next.Load() {
		if e.breaker.key == key {
			return e.breaker
		}
	}
	return nil
}

// insert adds a breaker whose key is not in the table.
func (t *table) insert(b *Breaker) {
	if t.size++; t.size > len(*t.buckets.Load()) {
		t.grow()
	}
	put(*t.buckets.Load(), t.hash(b.key), b)
}

func put(buckets []atomic.Pointer[entry], hash uint64, b *Breaker) {
	head := &buckets[hash&uint64(len(buckets)-1)]
	e := &entry{breaker: b}
	e.next.Store(head.Load())
	head.Store(e)
}

// grow makes new entries, because readers may still use the old ones.
func (t *table) grow() {
	buckets := make([]atomic.Pointer[entry], 2*len(*t.buckets.Load()))
	t.each(func(b *Breaker) { put(buckets, t.hash(b.key), b) })
	t.buckets.Store(&buckets)
}

func (t *table) remove(b *Breaker) {
	buckets := *t.buckets.Load()
	for at := &buckets[t.hash(b.key)&uint64(len(buckets)-1)]; at.Load() != nil; at = &at.Load().next {
		if at.Load().breaker == b {
			at.Store(at.Load().next.Load())
			t.size--
			return
		}
	}
}

func (t *table) each(f func(*Breaker)) {
	buckets := *t.buckets.Load()
	for i := range buckets {
		for e := buckets[i].Load(); e != nil; e = e.next.Load() {
			f(e.breaker)
		}
	}
}
