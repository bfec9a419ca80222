package gpu_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/mpi4go/mpi4go/gpu"
	"github.com/mpi4go/mpi4go/internal/cudasim"
	"github.com/stretchr/testify/require"
)

func TestDevices(t *testing.T) {
	before := cudasim.Stats()["retains"]
	all, err := gpu.Devices()
	require.NoError(t, err)
	require.Equal(t, before, cudasim.Stats()["retains"], "listing makes no context")
	require.NotEmpty(t, all)
	for i, d := range all {
		require.Equal(t, i, d.Ordinal)
		require.NotEmpty(t, d.Name)
		require.Regexp(t, regexp.MustCompile(`^GPU-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`), d.UUID)
		require.Regexp(t, regexp.MustCompile(`^[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.0$`), d.PCIBusID)
		require.Positive(t, d.TotalMem)
		require.Positive(t, d.Major)
	}
	major, _, err := gpu.DriverVersion()
	require.NoError(t, err)
	require.Greater(t, major, 10)
}

func TestDevicesSimulated(t *testing.T) {
	cudasim.Needed(t)
	all, err := gpu.Devices()
	require.NoError(t, err)
	require.Len(t, all, 2)
	require.Equal(t, gpu.DeviceInfo{
		Ordinal: 1, Name: "Simulated device 1", UUID: "GPU-01112131-4151-6171-8191-a1b1c1d1e1f1",
		PCIBusID: "0000:02:00.0", TotalMem: 1 << 30, Major: 8, Minor: 0,
	}, all[1])
	major, minor, err := gpu.DriverVersion()
	require.NoError(t, err)
	require.Equal(t, [2]int{12, 4}, [2]int{major, minor})
}

func TestOpenDevice(t *testing.T) {
	d := open(t)
	require.Zero(t, d.Info().Ordinal)
	require.Contains(t, d.String(), "device 0 (")
	require.NotZero(t, d.Context())
	free, total, err := d.MemGetInfo()
	require.NoError(t, err)
	require.Positive(t, free)
	require.LessOrEqual(t, free, total)
	for _, ordinal := range []int{-1, 999} {
		_, err := gpu.OpenDevice(ordinal)
		require.ErrorContains(t, err, "want 0 to ")
	}
	again, err := gpu.OpenDevice(0)
	require.NoError(t, err)
	require.Equal(t, d.Context(), again.Context())
	require.NoError(t, again.Close())
	require.ErrorIs(t, again.Close(), gpu.ErrFreed)
	_, _, err = again.MemGetInfo()
	require.ErrorIs(t, err, gpu.ErrFreed)
	_, err = again.Alloc(1)
	require.ErrorIs(t, err, gpu.ErrFreed)
	_, err = again.NewStream()
	require.ErrorIs(t, err, gpu.ErrFreed)
	_, err = again.NewEvent()
	require.ErrorIs(t, err, gpu.ErrFreed)
	_, err = again.NewPinnedPool(1 << 20)
	require.ErrorIs(t, err, gpu.ErrFreed)
	_, err = again.StreamFromHandle(0)
	require.ErrorIs(t, err, gpu.ErrFreed)
	require.ErrorIs(t, again.EnablePeerAccess(d), gpu.ErrFreed)
}

func TestCloseRefuses(t *testing.T) {
	d, err := gpu.OpenDevice(0)
	require.NoError(t, err)
	b, err := d.Alloc(1)
	require.NoError(t, err)
	s, err := d.NewStream()
	require.NoError(t, err)
	require.ErrorContains(t, d.Close(), "2 buffers, streams, events or pools are still open")
	require.NoError(t, b.Free())
	require.NoError(t, s.Destroy())
	require.NoError(t, d.Close())
}

func TestOpenLocalDevice(t *testing.T) {
	names := []string{"OMPI_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"}
	clear := func() {
		for _, name := range names {
			t.Setenv(name, "")
		}
	}
	all, err := gpu.Devices()
	require.NoError(t, err)
	check := func(want int) {
		d, err := gpu.OpenLocalDevice()
		require.NoError(t, err)
		require.Equal(t, want, d.Info().Ordinal)
		require.NoError(t, d.Close())
	}
	clear()
	check(0)
	for _, name := range names {
		clear()
		t.Setenv(name, "5")
		check(5 % len(all))
		for _, bad := range []string{"one", "-1"} {
			t.Setenv(name, bad)
			_, err := gpu.OpenLocalDevice()
			require.ErrorContains(t, err, name)
		}
	}
}

func TestPeers(t *testing.T) {
	d, other := open(t), second(t)
	can, err := d.CanAccessPeer(other)
	require.NoError(t, err)
	if !can {
		t.Skip("needs two devices with peer access")
	}
	require.NoError(t, d.EnablePeerAccess(other))
	require.NoError(t, d.EnablePeerAccess(other), "a second time too")
}

func TestNoDevice(t *testing.T) {
	cudasim.Configure(t, "CUDASIM_DEVICES", "0")
	_, err := gpu.Devices()
	require.ErrorIs(t, err, gpu.ErrNotSupported)
	_, err = gpu.OpenDevice(0)
	require.ErrorIs(t, err, errors.ErrUnsupported)
	_, err = gpu.OpenLocalDevice()
	require.ErrorContains(t, err, "CUDA_VISIBLE_DEVICES")
}

// child runs one test in a process of its own, with another library.
func child(t *testing.T, test, library string) {
	t.Helper()
	c := exec.Command(os.Args[0], "-test.run=^"+test+"$", "-test.v")
	c.Env = append(os.Environ(), "MPI4GO_CUDA="+library, "GPU_TEST_CHILD=1")
	text, err := c.CombinedOutput()
	require.NoError(t, err, string(text))
	require.Contains(t, string(text), "--- PASS: "+test)
}

// TestWithout runs every entrance to the package, with its driver missing or not
// complete.
func TestWithout(t *testing.T) {
	if os.Getenv("GPU_TEST_CHILD") == "" {
		cudasim.Needed(t)
		child(t, "TestWithout", filepath.Join(t.TempDir(), "libcuda.so.1"))
		for _, symbol := range []string{"cuMemAlloc_v2", "cuLaunchKernel"} {
			library, err := cudasim.Build(t.TempDir(), symbol)
			require.NoError(t, err)
			t.Setenv("GPU_TEST_SYMBOL", symbol)
			child(t, "TestWithout", library)
		}
		return
	}
	_, err1 := gpu.Devices()
	_, err2 := gpu.OpenDevice(0)
	_, err3 := gpu.OpenLocalDevice()
	_, err4 := gpu.FromPointer(4096, 1, nil)
	_, err5 := gpu.Inspect(4096)
	_, _, err6 := gpu.DriverVersion()
	for _, err := range []error{err1, err2, err3, err4, err5, err6} {
		require.ErrorIs(t, err, gpu.ErrNotSupported)
		require.ErrorIs(t, err, errors.ErrUnsupported)
		require.ErrorContains(t, err, "libcuda.so.1")
		require.ErrorContains(t, err, os.Getenv("GPU_TEST_SYMBOL"))
	}
	if os.Getenv("GPU_TEST_SYMBOL") == "" { // there is nobody to ask for the name
		require.Equal(t, "CUDA error 2", gpu.ErrOutOfMemory.Error())
	}
}

// TestWithoutOptional shows that what newer drivers have may be missing.
func TestWithoutOptional(t *testing.T) {
	if os.Getenv("GPU_TEST_CHILD") == "" {
		cudasim.Needed(t)
		library, err := cudasim.Build(t.TempDir(), "cuDeviceGetUuid_v2")
		require.NoError(t, err)
		child(t, "TestWithoutOptional", library)
		return
	}
	all, err := gpu.Devices()
	require.NoError(t, err)
	require.Equal(t, "GPU-01112131-4151-6171-8191-a1b1c1d1e1f1", all[1].UUID)
}
