package coro

import (
	"context"
	"errors"

	"golang.org/x/sync/errgroup"
)

// Group is a set of goroutines that belong together. See [Run].
type Group struct {
	group *errgroup.Group
	ctx   context.Context
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
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	returned := false
	defer func() {
		if !returned { // f panicked: the goroutines must not outlive it
			cancel()
			_ = group.Wait()
		}
	}()
	err := f(&Group{group: group, ctx: ctx})
	if err != nil {
		cancel()
	}
	returned = true
	first := group.Wait()
	if err == nil || first != nil && !errors.Is(first, context.Canceled) {
		return first
	}
	return err
}

// Go starts a goroutine in the group, with the group's context. It may be
// called by f and by the group's goroutines, not after Run has returned.
func (g *Group) Go(f func(ctx context.Context) error) {
	g.group.Go(func() error { return f(g.ctx) })
}

// Context is the group's context: it ends with the first error, and when Run
// returns.
func (g *Group) Context() context.Context { return g.ctx }

// SetLimit bounds the goroutines that run at a time; Go then waits for a place.
// Call it before the first Go.
func (g *Group) SetLimit(n int) { g.group.SetLimit(n) }
