package device_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/mpi4go/mpi4go/gpu"
	"github.com/mpi4go/mpi4go/internal/cudasim"
	"github.com/mpi4go/mpi4go/internal/mpitest"
	"github.com/mpi4go/mpi4go/internal/pattern"
	"github.com/mpi4go/mpi4go/mem"
	"github.com/mpi4go/mpi4go/mpicomm"
	"github.com/stretchr/testify/require"
)

// The tests of this package send and receive device memory, over each MPI: straight
// where that is built with CUDA, staged otherwise. All of it is on the simulated driver.

var (
	dev     *gpu.Device
	kernels *pattern.Kernels
	stream  *gpu.Stream // for what the tests do between messages
)

func TestMain(m *testing.M) {
	mpitest.Main(m, mpitest.Ranks(2), mpitest.Environment(cudasim.Use), mpitest.BeforeInit(openDevice, closeDevice),
		mpitest.Program("opened early", func() error { return programStaged(true) }),
		mpitest.Program("opened late", func() error { return programStaged(false) }))
}

func openDevice() (err error) {
	if dev, err = gpu.OpenDevice(0); err != nil {
		return err
	}
	if kernels, err = pattern.Load(dev); err != nil {
		return err
	}
	stream, err = dev.NewStream()
	return err
}

// closeDevice checks that nothing is left of any message.
func closeDevice() error {
	if err := stream.Destroy(); err != nil {
		return err
	}
	if err := kernels.Unload(); err != nil {
		return err
	}
	if err := dev.Close(); err != nil {
		return err
	}
	leaks := cudasim.Leaks()
	delete(leaks, "registered") // Open MPI's own: it leaves its shared memory registered
	if len(leaks) > 0 {
		return fmt.Errorf("after all tests the driver still has: %v", leaks)
	}
	if n := cudasim.Stats()["violations"]; n != expectedViolations {
		return fmt.Errorf("the driver was misused %d times", n-expectedViolations)
	}
	return nil
}

// expectedViolations are those that tests have asked for.
var expectedViolations int

// direct tells whether MPI is given device memory here.
func direct(t testing.TB) bool {
	t.Helper()
	info, err := mpicomm.Info()
	require.NoError(t, err)
	return info.DeviceMemory.PointToPoint.Able
}

// memory is a buffer of some kind, filled with a pattern or looked at.
type memory struct {
	kind   mem.Kind
	host   []byte
	device *gpu.Buffer
}

func newMemory(t testing.TB, kind mem.Kind, n int) *memory {
	m := &memory{kind: kind}
	var err error
	switch kind {
	case mem.Device:
		m.device, err = dev.Alloc(n)
	case mem.Managed:
		m.device, err = dev.AllocManaged(n)
	default:
		m.host = make([]byte, n)
	}
	require.NoError(t, err)
	return m
}

func (m *memory) free(t testing.TB) {
	if m.device != nil {
		require.NoError(t, m.device.Free())
	}
}

func (m *memory) mem() mem.Buffer {
	if m.device != nil {
		return m.device.Mem()
	}
	return mem.Of(m.host)
}

// fill queues the pattern on a stream, or writes it.
func (m *memory) fill(t testing.TB, s *gpu.Stream, seed int) {
	if m.device != nil {
		require.NoError(t, kernels.Fill(s, m.device, uint64(seed)))
		return
	}
	for i := range m.host {
		m.host[i] = pattern.Byte(uint64(seed), i)
	}
}

// requirePattern checks the first n bytes, behind what is queued on the stream.
func (m *memory) requirePattern(t testing.TB, ctx context.Context, s *gpu.Stream, seed, n int) {
	t.Helper()
	if m.device != nil {
		part, err := m.device.Slice(0, n)
		require.NoError(t, err)
		wrong, first, err := kernels.Verify(ctx, s, part, uint64(seed))
		require.NoError(t, err)
		require.Zero(t, wrong, "%s: the first wrong byte is %d of %d", m.kind, first, n)
		return
	}
	for i, b := range m.host[:n] {
		if b != pattern.Byte(uint64(seed), i) {
			require.Equal(t, pattern.Byte(uint64(seed), i), b, "byte %d of %d", i, n)
		}
	}
}

var kinds = []mem.Kind{mem.Host, mem.Managed, mem.Device}
