package coro

import "slices"

// fifo is a queue.
type fifo[T comparable] struct {
	items []T
	head  int
}

func (q *fifo[T]) len() int { return len(q.items) - q.head }

func (q *fifo[T]) push(x T) { q.items = append(q.items, x) }

// pushFront makes x the first.
func (q *fifo[T]) pushFront(x T) {
	if q.head > 0 {
		q.head--
		q.items[q.head] = x
		return
	}
	q.items = slices.Insert(q.items, 0, x)
}

func (q *fifo[T]) first() T { return q.items[q.head] }

func (q *fifo[T]) pop() T {
	var none T
	x := q.items[q.head]
	q.items[q.head] = none
	q.head++
	switch {
	case q.head == len(q.items):
		q.items, q.head = q.items[:0], 0
	case q.head >= 32 && q.head > len(q.items)/2:
		n := copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
	}
	return x
}

// remove takes x out, wherever it is, and returns whether it was there.
func (q *fifo[T]) remove(x T) bool {
	i := slices.Index(q.items[q.head:], x)
	if i < 0 {
		return false
	}
	q.items = slices.Delete(q.items, q.head+i, q.head+i+1)
	return true
}
