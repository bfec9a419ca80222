package mpicomm_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/mpi4go/mpi4go/coro"
	"github.com/mpi4go/mpi4go/internal/cmpi"
	"github.com/mpi4go/mpi4go/internal/mpitest"
	"github.com/mpi4go/mpi4go/mem"
	"github.com/mpi4go/mpi4go/mpicomm"
	"github.com/stretchr/testify/require"
)

// owner is somebody else who uses MPI in this process.
type owner struct{ lib *cmpi.Library }

func newOwner(level int) (o owner, err error) {
	if o.lib, err = cmpi.Find(os.Getenv(cmpi.EnvMPI)); err != nil {
		return o, err
	}
	return o, o.lib.InitThread(level)
}

// gather is a collective call of the owner on MPI_COMM_WORLD.
func (o owner) gather(world *mpicomm.Comm, handle uint64) error {
	all, err := o.lib.Agree(handle, world.Size(), []byte{byte(world.Rank() + 1)})
	for rank, b := range all {
		if err == nil && int(b) != rank+1 {
			err = fmt.Errorf("gathered %v", all)
		}
	}
	return err
}

// programAttach attaches to an MPI with MPI_THREAD_MULTIPLE, or with EXCLUSIVE=1
// to one with MPI_THREAD_SERIALIZED, and exchanges messages while the owner makes
// calls of its own. Then the owner goes on without us.
func programAttach() error {
	exclusive := os.Getenv("EXCLUSIVE") != ""
	level := cmpi.ThreadMultiple
	if exclusive {
		level = cmpi.ThreadSerialized
	}
	o, err := newOwner(level)
	if err != nil {
		return err
	}
	if err := mpicomm.Init(mpicomm.Config{Exclusive: exclusive}); err != nil {
		return err
	}
	if err := mpicomm.Init(mpicomm.Config{}); !errors.Is(err, mpicomm.ErrInitialized) {
		return fmt.Errorf("the second Init: %w", err)
	}
	info, err := mpicomm.Info()
	if err != nil {
		return err
	}
	fmt.Print(info)
	world, handle := mpicomm.World(), mpicomm.Handle(mpicomm.World())
	dup, err := world.Dup(background)
	if err != nil {
		return err
	}
	err = coro.Run(background, func(g *coro.Group) error {
		g.Go(func(context.Context) (err error) {
			for range 300 {
				if exclusive {
					closed := mpicomm.Exclusive(func() { err = o.gather(world, handle) })
					err = errors.Join(err, closed)
				} else {
					err = o.gather(world, handle)
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
		for i := range 20 {
			g.Go(func(ctx context.Context) error {
				next, previous := ring(dup)
				for round := range 50 {
					n := 1 + i*round*31
					buf := make([]byte, n)
					if _, err := coro.Sendrecv(ctx, dup, pattern(n, i), next, i, buf, previous, i); err != nil {
						return err
					}
					if string(buf) != string(pattern(n, i)) {
						return fmt.Errorf("wrong message of %d bytes", n)
					}
				}
				return nil
			})
		}
		return nil
	})
	if err == nil {
		err = exchange(world)
	}
	if err != nil {
		return err
	}
	if err := mpicomm.Finalize(); err != nil {
		return err
	}
	if o.lib.Finalized() {
		return errors.New("mpicomm.Finalize has finalised the MPI of somebody else")
	}
	if err := o.gather(world, handle); err != nil {
		return err
	}
	if err := o.lib.Finalize(); err != nil {
		return err
	}
	if err := mpicomm.Finalize(); !errors.Is(err, mpicomm.ErrFinalized) {
		return fmt.Errorf("the second Finalize: %w", err)
	}
	fmt.Println("attached and left", world)
	return nil
}

// TestAttach attaches to an MPI that somebody else has initialised.
func TestAttach(t *testing.T) {
	mpitest.EachMPI(t, func(t *testing.T, mpi string) {
		for _, test := range []struct{ env, level string }{{"EXCLUSIVE=", "multiple"}, {"EXCLUSIVE=1", "serialized"}} {
			r := mpitest.Job{MPI: mpi, Ranks: 3, Program: "attach", Env: []string{test.env}}.Run(t)
			require.Equal(t, 0, r.Code)
			require.Contains(t, r.Output, "thread level   "+test.level+", of an MPI that another package has initialised")
			require.Contains(t, r.Output, "it was in the process already")
			for rank := range 3 {
				require.Contains(t, r.Output, fmt.Sprintf("attached and left world(%d of 3)", rank))
			}
		}
	})
}

// programAttachLevel tries to attach where the thread level is too low, and then
// where the promise makes it suffice.
func programAttachLevel() error {
	for level, name := range []string{"single", "funneled", "serialized", "multiple"} {
		if name != os.Getenv("LEVEL") {
			continue
		}
		if _, err := newOwner(level); err != nil {
			return err
		}
	}
	fmt.Println("alone:", mpicomm.Init(mpicomm.Config{}))
	fmt.Println("promised:", mpicomm.Init(mpicomm.Config{Exclusive: true}))
	return nil
}

// TestAttachLevel shows the errors for thread levels that do not suffice.
func TestAttachLevel(t *testing.T) {
	mpitest.EachMPI(t, func(t *testing.T, mpi string) {
		for level, want := range map[string][]string{
			"single":   {"alone: mpicomm.Init: ", "the thread level single, and attaching to it needs multiple", "in gompi: mpi.Start(true)", "OMPI_MPI_THREAD_LEVEL=3", "promised: mpicomm.Init: ", "needs serialized, because goroutines call MPI from several threads"},
			"funneled": {"alone: mpicomm.Init: ", "the thread level funneled", "promised: mpicomm.Init: ", "MPI_THREAD_SERIALIZED"},
			"serialized": {
				"alone: mpicomm.Init: ", "the thread level serialized, and attaching to it needs multiple",
				"inside mpicomm.Exclusive only, and say so with Config.Exclusive or MPI4GO_EXCLUSIVE=1", "promised: <nil>",
			},
			"multiple": {"alone: <nil>", "promised: mpi4go was initialised already"},
		} {
			// It ends without finalising MPI, which launchers report in their own way.
			r := mpitest.Job{Program: "attach, level", Env: []string{mpicomm.EnvMPI + "=" + mpi, "LEVEL=" + level}}.Run(t)
			for _, text := range want {
				require.Contains(t, r.Output, text, level)
			}
		}
	})
}

// programAttachOwnerFirst has the owner finalise MPI before us, while a receive
// waits.
func programAttachOwnerFirst() error {
	o, err := newOwner(cmpi.ThreadMultiple)
	if err != nil {
		return err
	}
	if err := mpicomm.Init(mpicomm.Config{}); err != nil {
		return err
	}
	world := mpicomm.World()
	request, err := world.Irecv(mem.Of(make([]byte, 1)), mpicomm.AnySource, 5)
	if err != nil {
		return err
	}
	waiting := make(chan error)
	go func() {
		_, err := coro.Recv(background, world, make([]byte, 1000), world.Rank(), 6)
		waiting <- err
	}()
	time.Sleep(10 * time.Millisecond)
	if os.Getenv("EXCLUSIVE") != "" {
		closed := mpicomm.Exclusive(func() { err = o.lib.Finalize() })
		err = errors.Join(err, closed)
	} else {
		err = o.lib.Finalize()
	}
	if err != nil {
		return err
	}
	if err := <-waiting; !errors.Is(err, context.Canceled) {
		return fmt.Errorf("Recv: %w", err)
	}
	if _, err := request.Wait(background); !errors.Is(err, context.Canceled) {
		return fmt.Errorf("Wait: %w", err)
	}
	for call, err := range map[string]error{
		"Finalize":  mpicomm.Finalize(),
		"Send":      coro.Send(background, world, []byte{1}, world.Rank(), 0),
		"Exclusive": mpicomm.Exclusive(func() { panic("not allowed") }),
	} {
		if !errors.Is(err, mpicomm.ErrFinalized) {
			return fmt.Errorf("%s: %w", call, err)
		}
		fmt.Printf("%s: %v\n", call, err)
	}
	if err := mpicomm.Init(mpicomm.Config{}); !errors.Is(err, mpicomm.ErrFinalized) {
		return fmt.Errorf("Init: %w", err)
	}
	fmt.Println("all calls failed as they should")
	return nil
}

// TestAttachOwnerFirst shows that waiters and later calls get errors when the
// owner finalises MPI before us.
func TestAttachOwnerFirst(t *testing.T) {
	mpitest.EachMPI(t, func(t *testing.T, mpi string) {
		for _, env := range []string{"EXCLUSIVE=", "EXCLUSIVE=1"} {
			r := mpitest.Job{MPI: mpi, Ranks: 2, Program: "attach, owner first", Env: []string{env}}.Run(t)
			require.Equal(t, 0, r.Code)
			require.Contains(t, r.Output, "all calls failed as they should")
			for _, call := range []string{"Finalize", "Send", "Exclusive"} {
				require.Contains(t, r.Output, call+": mpi4go is finalised")
			}
			require.Contains(t, r.Output, "call mpicomm.Finalize before that (in gompi: before mpi.Stop)")
		}
	})
}

// programAttachTooLate has somebody else initialise MPI after us, or finalise it
// before Init.
func programAttachTooLate() error {
	if os.Getenv("FINALIZED") != "" {
		o, err := newOwner(cmpi.ThreadMultiple)
		if err == nil {
			err = o.lib.Finalize()
		}
		if err != nil {
			return err
		}
		fmt.Println("Init:", mpicomm.Init(mpicomm.Config{}))
		return nil
	}
	if err := mpicomm.Init(mpicomm.Config{}); err != nil {
		return err
	}
	_, err := newOwner(cmpi.ThreadMultiple)
	fmt.Println("initialised twice:", err)
	return err
}

func TestAttachTooLate(t *testing.T) {
	mpitest.EachMPI(t, func(t *testing.T, mpi string) {
		r := mpitest.Job{Program: "attach, too late", Env: []string{mpicomm.EnvMPI + "=" + mpi, "FINALIZED=1"}}.Run(t)
		require.Equal(t, 0, r.Code)
		require.Contains(t, r.Output, "was finalised already in this process")
		r = mpitest.Job{MPI: mpi, Ranks: 2, Program: "attach, too late"}.Run(t)
		require.NotEqual(t, 0, r.Code)
		require.False(t, r.TimedOut)
		require.NotContains(t, r.Output, "initialised twice: <nil>")
	})
}

// programAttachBadCall makes mistakes: one that the library sees, with Open MPI
// one on a duplicate that only MPI sees, and one on MPI_COMM_WORLD.
func programAttachBadCall() error {
	o, err := newOwner(cmpi.ThreadMultiple)
	if err != nil {
		return err
	}
	if err := mpicomm.Init(mpicomm.Config{}); err != nil {
		return err
	}
	dup, err := mpicomm.World().Dup(background)
	if err != nil {
		return err
	}
	if _, err := mpicomm.World().Isend(mem.Of([]byte{1}), 99, 1); !errors.Is(err, mpicomm.ErrRank) {
		return fmt.Errorf("rank 99: %w", err)
	}
	fmt.Println("a wrong rank: returned")
	if o.lib.Family == "openmpi" { // MPICH reports completion errors of any communicator to the handler of the world
		peer := 1 - dup.Rank()
		_, err = coro.Sendrecv(background, dup, make([]byte, 2000), peer, 1, make([]byte, 1000), peer, 1)
		if !errors.Is(err, mpicomm.ErrTruncate) {
			return fmt.Errorf("on the duplicate: %w", err)
		}
	}
	fmt.Println("on the duplicate: returned")
	bad := cmpi.Bench{Mode: cmpi.BenchLatency, Peer: 99, Sender: true, Iterations: 1, Send: []byte{1}, Recv: []byte{1}}
	return mpicomm.Exclusive(func() {
		_, err := bad.Run(o.lib)
		fmt.Println("on the world: returned", err)
	})
}

// TestAttachErrorHandlers shows that MPI_COMM_WORLD keeps its owner's error
// handler, and that our duplicates have their own.
func TestAttachErrorHandlers(t *testing.T) {
	mpitest.EachMPI(t, func(t *testing.T, mpi string) {
		r := mpitest.Job{MPI: mpi, Ranks: 2, Program: "attach, bad call"}.Run(t)
		require.NotEqual(t, 0, r.Code)
		require.False(t, r.TimedOut)
		require.Contains(t, r.Output, "a wrong rank: returned")
		require.Contains(t, r.Output, "on the duplicate: returned")
		require.NotContains(t, r.Output, "on the world: returned")
	})
}
