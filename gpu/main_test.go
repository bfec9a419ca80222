package gpu_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/mpi4go/mpi4go/gpu"
	"github.com/mpi4go/mpi4go/internal/cudasim"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) { cudasim.Main(m) }

// patient is a context that ends before the test binary would.
func patient(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// open opens device 0. At the end of the test it must close, which it does only if
// nothing of it is left open.
func open(t testing.TB) *gpu.Device {
	d, err := gpu.OpenDevice(0)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d
}

// second opens device 1, or skips the test.
func second(t testing.TB) *gpu.Device {
	all, err := gpu.Devices()
	require.NoError(t, err)
	if len(all) < 2 {
		t.Skip("needs two devices")
	}
	d, err := gpu.OpenDevice(1)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d
}

func stream(t testing.TB, d *gpu.Device) *gpu.Stream {
	s, err := d.NewStream()
	require.NoError(t, err)
	t.Cleanup(func() {
		if err := s.Destroy(); err != nil {
			require.ErrorIs(t, err, gpu.ErrFreed)
		}
	})
	return s
}

// freed frees a buffer at the end of the test, unless that was done.
func freed(t testing.TB, b *gpu.Buffer, err error) *gpu.Buffer {
	require.NoError(t, err)
	t.Cleanup(func() {
		if err := b.Free(); err != nil {
			require.ErrorIs(t, err, gpu.ErrFreed)
		}
	})
	return b
}

func alloc(t testing.TB, d *gpu.Device, n int) *gpu.Buffer {
	b, err := d.Alloc(n)
	return freed(t, b, err)
}

func random(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{byte(n)}).Read(b)
	return b
}

// unchanged checks that a counter of the simulated driver does not move.
func unchanged(t testing.TB, counter string) {
	before := cudasim.Stats()[counter]
	t.Cleanup(func() { require.Equal(t, before, cudasim.Stats()[counter], counter) })
}

// trace runs f and returns how often each entry of the driver was called.
func trace(t *testing.T, f func()) map[string]int {
	calls := cudasim.Trace(t, f)
	require.NotEmpty(t, calls)
	return calls
}

// delay makes copies, fills and kernels take so many microseconds.
func delay(t *testing.T, us int) { cudasim.Configure(t, "CUDASIM_DELAY", fmt.Sprint(us)) }
