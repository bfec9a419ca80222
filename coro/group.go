package coro

import (
	"context"
	"sync"

	"golang.org/x/sync/errgroup"
)

// Group is a set of goroutines that belong together. See [Run].
type Group struct {
	group  errgroup.Group
	ctx    context.Context
	cancel context.CancelFunc
	once   sync.Once
	first  error
}

// Run calls f with a new group and waits on exit, whatever f returns, for every
// goroutine that was started in it. The first error, of f or of a goroutine,
// cancels the context of the others and is returned.
//
//	err := coro.Run(ctx, func(g *coro.Group) error {
//		for peer := range world.Size() {
//			g.Go(func(ctx context.Context) error { return coro.Send(ctx, world, data, peer, tag) })
//		}
//		return nil
//	})
func Run(ctx context.Context, f func(g *Group) error) error {
	g := &Group{}
	g.ctx, g.cancel = context.WithCancel(ctx)
	defer g.cancel()
	returned := false
	defer func() {
		if !returned { // f panicked: the goroutines must not outlive it
			g.cancel()
			_ = g.group.Wait()
		}
	}()
	g.fail(f(g))
	returned = true
	_ = g.group.Wait() // the errors are in g.first
	return g.first
}

// fail notes the first error.
func (g *Group) fail(err error) {
	if err != nil {
		g.once.Do(func() {
			g.first = err
			g.cancel()
		})
	}
}

// Go starts a goroutine in the group, with the group's context. It may be
// called by f and by the group's goroutines, not after Run has returned.
func (g *Group) Go(f func(ctx context.Context) error) {
	g.group.Go(func() error {
		g.fail(f(g.ctx))
		return nil
	})
}

// Context is the group's context: it ends with the first error, and when Run
// returns.
func (g *Group) Context() context.Context { return g.ctx }

// SetLimit bounds the goroutines that run at a time; Go then waits for a place.
// Call it before the first Go.
func (g *Group) SetLimit(n int) { g.group.SetLimit(n) }
