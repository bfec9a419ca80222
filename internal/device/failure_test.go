package device_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/mpi4go/mpi4go/coro"
	"github.com/mpi4go/mpi4go/gpu"
	"github.com/mpi4go/mpi4go/internal/cudasim"
	"github.com/mpi4go/mpi4go/internal/mpitest"
	"github.com/mpi4go/mpi4go/mem"
	"github.com/mpi4go/mpi4go/mpicomm"
	"github.com/stretchr/testify/require"
)

// programStaged sends device memory to its own rank, and wants it staged: because the device
// is opened after Init, or because a setting says so.
func programStaged(early bool) error {
	var d *gpu.Device
	open := func() (err error) {
		d, err = gpu.OpenDevice(0)
		return err
	}
	if early {
		if err := open(); err != nil {
			return err
		}
	}
	if err := mpicomm.Init(mpicomm.Config{}); err != nil {
		return err
	}
	if !early {
		if err := open(); err != nil {
			return err
		}
	}
	info, err := mpicomm.Info()
	if err != nil {
		return err
	}
	fmt.Println("because:", info.DeviceMemory.PointToPoint.Why)
	b, err := d.Alloc(medium)
	if err != nil {
		return err
	}
	got, c := make([]byte, medium), mpicomm.World()
	if _, err := coro.Sendrecv(context.Background(), c, b.Mem(), c.Rank(), 1, got, c.Rank(), 1); err != nil {
		return err
	}
	if n := mpicomm.CountDeviceTraffic(); n != (mpicomm.DeviceTraffic{StagedOut: medium}) {
		return fmt.Errorf("not staged: %+v", n)
	}
	return errors.Join(b.Free(), mpicomm.Finalize(), d.Close())
}

func TestStagedAllTheSame(t *testing.T) {
	mpitest.EachMPI(t, func(t *testing.T, mpi string) {
		r := mpitest.Job{MPI: mpi, Program: "opened late"}.Run(t)
		require.Equal(t, 0, r.Code)
		require.Contains(t, r.Output, "because: ")
		r = mpitest.Job{MPI: mpi, Program: "opened early", Env: []string{"MPI4GO_DEVICE_MEMORY=none"}}.Run(t)
		require.Equal(t, 0, r.Code)
		require.Contains(t, r.Output, "because: Config.DeviceMemory says so")
	})
}

// toMyself sends a plain message of device memory to this rank, whatever fails.
func toMyself(ctx context.Context, c *mpicomm.Comm, a, b *gpu.Buffer) error {
	recv, err := c.Irecv(b.On(stream), c.Rank(), 1)
	if err != nil {
		return err
	}
	send, err := c.Isend(a.Mem(), c.Rank(), 1)
	if err == nil {
		_, err = send.Wait(ctx)
	}
	if err != nil {
		_ = recv.Cancel()
		_, _ = recv.Wait(ctx)
		return err
	}
	if _, err = recv.Wait(ctx); err != nil { // the message may have been left
		if m, found, e := c.Improbe(c.Rank(), 1); e != nil || found {
			host := make([]byte, b.Len())
			r, e2 := m.Imrecv(mem.Of(host))
			if e2 == nil {
				_, e2 = r.Wait(ctx)
			}
			return errors.Join(err, e, e2)
		}
	}
	return err
}

// failEach makes each call of the driver fail that f makes, one at a time. The error names the
// call, or there is none and check finds the right bytes.
func failEach(t *testing.T, f func() error, check func(at string)) {
	require.NoError(t, f()) // what is kept is there now
	calls := cudasim.Trace(t, func() { require.NoError(t, f()) })
	require.Positive(t, calls["cuMemcpyAsync"])
	for name, n := range calls {
		if name == "cuInit" || name == "cuGetErrorName" {
			continue
		}
		for i := 1; i <= min(n, 20); i++ {
			at := fmt.Sprintf("%s:%d", name, i)
			cudasim.Fail(t, at)
			err := f()
			cudasim.Fail(t, "")
			if err == nil {
				check(at)
				continue
			}
			require.ErrorContains(t, err, name+": CUDA_ERROR_UNKNOWN (999)", at)
			var failed *gpu.Error
			require.ErrorAs(t, err, &failed, at)
		}
	}
}

// TestEveryFailure fails each call of the driver that a staged message makes. What is left
// of any shows when the tests end.
func TestEveryFailure(t *testing.T) {
	c := mpitest.Pair(t)
	if direct(t) {
		t.Skip("this MPI calls the driver itself, and ends the job when that fails")
	}
	ctx := mpitest.Context(t)
	a, b := deviceMemory(t, medium), deviceMemory(t, medium)
	a.fill(t, stream, 4)
	require.NoError(t, stream.Synchronize(ctx))
	failEach(t, func() error { return toMyself(ctx, c, a.device, b.device) }, func(at string) {
		b.requirePattern(t, ctx, stream, 4, medium)
	})
	require.NoError(t, coro.Send(ctx, c, []byte{1}, c.Rank(), 2))
	_, err := coro.Recv(ctx, c, []byte{0}, c.Rank(), 2)
	require.NoError(t, err)
}
