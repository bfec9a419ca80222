package coro_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mpi4go/mpi4go/coro"
	"github.com/stretchr/testify/require"
)

var (
	errFirst  = errors.New("first")
	errSecond = errors.New("second")
)

func TestRunWithoutGoroutines(t *testing.T) {
	require.NoError(t, coro.Run(t.Context(), func(*coro.Group) error { return nil }))
	require.ErrorIs(t, coro.Run(t.Context(), func(*coro.Group) error { return errFirst }), errFirst)
}

// TestRunWaits shows that Run returns when the last goroutine has, whatever f
// and the others return.
func TestRunWaits(t *testing.T) {
	for _, own := range []error{nil, errFirst} {
		var running atomic.Int32
		err := coro.Run(t.Context(), func(g *coro.Group) error {
			for i := range 20 {
				running.Add(1)
				g.Go(func(ctx context.Context) error {
					defer running.Add(-1)
					for range i * 10 {
						runtime.Gosched()
					}
					return nil
				})
			}
			return own
		})
		require.Equal(t, own, err)
		require.Zero(t, running.Load())
	}
}

// TestFirstErrorWins shows that the first error ends the context of the others,
// and is the one that Run returns, not what that makes of them.
func TestFirstErrorWins(t *testing.T) {
	var ended atomic.Int32
	err := coro.Run(t.Context(), func(g *coro.Group) error {
		for range 10 {
			g.Go(func(ctx context.Context) error {
				<-ctx.Done()
				ended.Add(1)
				return fmt.Errorf("stopped: %w", ctx.Err())
			})
		}
		g.Go(func(context.Context) error { return errFirst })
		<-g.Context().Done()
		return g.Context().Err()
	})
	require.ErrorIs(t, err, errFirst)
	require.EqualValues(t, 10, ended.Load())
}

// TestOwnErrorWins shows that an error of f ends the context of the goroutines,
// and is returned although they fail because of it.
func TestOwnErrorWins(t *testing.T) {
	err := coro.Run(t.Context(), func(g *coro.Group) error {
		g.Go(func(ctx context.Context) error {
			<-ctx.Done()
			return fmt.Errorf("stopped: %w", ctx.Err())
		})
		return errFirst
	})
	require.ErrorIs(t, err, errFirst)
}

// TestOwnErrorIsFirst shows that what a goroutine makes of the cancellation does
// not hide the error of f that caused it.
func TestOwnErrorIsFirst(t *testing.T) {
	err := coro.Run(t.Context(), func(g *coro.Group) error {
		g.Go(func(ctx context.Context) error {
			<-ctx.Done()
			return errSecond
		})
		return errFirst
	})
	require.ErrorIs(t, err, errFirst)
}

func TestOuterContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	err := coro.Run(ctx, func(g *coro.Group) error {
		g.Go(func(ctx context.Context) error {
			cancel()
			<-ctx.Done()
			return ctx.Err()
		})
		return nil
	})
	require.ErrorIs(t, err, context.Canceled)
}

// TestContextEndsWithRun shows that the group's context is over when Run is.
func TestContextEndsWithRun(t *testing.T) {
	var kept context.Context
	require.NoError(t, coro.Run(t.Context(), func(g *coro.Group) error {
		kept = g.Context()
		return nil
	}))
	require.ErrorIs(t, kept.Err(), context.Canceled)
}

// TestPanic shows that a panic of f waits for the goroutines, whose context it
// ends, and goes on.
func TestPanic(t *testing.T) {
	var ended atomic.Bool
	require.PanicsWithValue(t, "out of order", func() {
		_ = coro.Run(t.Context(), func(g *coro.Group) error {
			g.Go(func(ctx context.Context) error {
				<-ctx.Done()
				ended.Store(true)
				return ctx.Err()
			})
			panic("out of order")
		})
	})
	require.True(t, ended.Load())
}

// TestGoexit shows the same for runtime.Goexit, as t.FailNow calls it.
func TestGoexit(t *testing.T) {
	var ended atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = coro.Run(t.Context(), func(g *coro.Group) error {
			g.Go(func(ctx context.Context) error {
				<-ctx.Done()
				ended.Store(true)
				return ctx.Err()
			})
			runtime.Goexit()
			return nil
		})
	}()
	<-done
	require.True(t, ended.Load())
}

// TestNestedGo starts goroutines from goroutines of the group.
func TestNestedGo(t *testing.T) {
	var count atomic.Int32
	require.NoError(t, coro.Run(t.Context(), func(g *coro.Group) error {
		for range 10 {
			g.Go(func(context.Context) error {
				count.Add(1)
				g.Go(func(context.Context) error { count.Add(1); return nil })
				return nil
			})
		}
		return nil
	}))
	require.EqualValues(t, 20, count.Load())
}

func TestSetLimit(t *testing.T) {
	var now, most atomic.Int32
	require.NoError(t, coro.Run(t.Context(), func(g *coro.Group) error {
		g.SetLimit(3)
		for range 50 {
			g.Go(func(context.Context) error {
				n := now.Add(1)
				for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
				}
				time.Sleep(100 * time.Microsecond)
				now.Add(-1)
				return nil
			})
		}
		return nil
	}))
	require.LessOrEqual(t, most.Load(), int32(3))
	require.Positive(t, most.Load())
}
