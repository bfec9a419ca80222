package gpu

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"

	"github.com/mpi4go/mpi4go/internal/cuda"
)

// DeviceInfo describes a device.
type DeviceInfo struct {
	Ordinal      int    // its number in this process, from 0
	Name         string // such as "NVIDIA H200"
	UUID         string // as nvidia-smi writes it: GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx
	PCIBusID     string // domain:bus:device.function
	TotalMem     int    // bytes
	Major, Minor int    // compute capability
}

// Devices describes the devices that the process may use, which
// CUDA_VISIBLE_DEVICES limits. It makes no context. Without a driver or a device
// the error wraps [ErrNotSupported].
func Devices() ([]DeviceInfo, error) {
	n, err := count()
	if err != nil {
		return nil, err
	}
	all := make([]DeviceInfo, n)
	for i := range all {
		if all[i], _, err = describe(i); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// DriverVersion is the version of CUDA that the driver is for, such as 12.4.
func DriverVersion() (major, minor int, err error) {
	if err := cuda.Load(); err != nil {
		return 0, 0, fmt.Errorf("gpu: %w", err)
	}
	return cuda.DriverVersion()
}

func count() (int, error) {
	if err := cuda.Load(); err != nil {
		return 0, fmt.Errorf("gpu: %w", err)
	}
	n, err := cuda.DeviceCount()
	switch {
	case err != nil:
		return 0, fmt.Errorf("gpu: %w", err)
	case n == 0:
		return 0, fmt.Errorf("gpu: %w: the driver sees no device; CUDA_VISIBLE_DEVICES is %q", ErrNotSupported, os.Getenv("CUDA_VISIBLE_DEVICES"))
	}
	return n, nil
}

func describe(ordinal int) (info DeviceInfo, handle int, err error) {
	d, err := cuda.DeviceOf(ordinal)
	if err != nil {
		return DeviceInfo{}, 0, fmt.Errorf("gpu: %w", err)
	}
	u := d.UUID
	return DeviceInfo{
		Ordinal:  ordinal,
		Name:     d.Name,
		UUID:     fmt.Sprintf("GPU-%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:]),
		PCIBusID: d.PCIBusID,
		TotalMem: d.TotalMem,
		Major:    d.Major,
		Minor:    d.Minor,
	}, d.Handle, nil
}

// Device is an open device. It holds a reference to the device's primary context.
type Device struct {
	info   DeviceInfo
	handle int
	ctx    cuda.Context
	guard
	open int // buffers, streams, events and pools; under guard.mu

	own     sync.Mutex // for what follows: what the library keeps for itself
	events  []cuda.Event
	stage   *PinnedPool
	streams map[*Stream]struct{} // that NewStream has made
	lanes   [2]*lane             // of messages
}

// OpenDevice opens the device with an ordinal from 0. Close it after everything
// that was made with it. The first use of a device in a process makes its context,
// which can take a second and some hundred megabytes of its memory.
func OpenDevice(ordinal int) (*Device, error) {
	n, err := count()
	if err != nil {
		return nil, err
	}
	if ordinal < 0 || ordinal >= n {
		return nil, fmt.Errorf("gpu.OpenDevice: device %d: want 0 to %d: the driver sees %d; CUDA_VISIBLE_DEVICES is %q", ordinal, n-1, n, os.Getenv("CUDA_VISIBLE_DEVICES"))
	}
	info, handle, err := describe(ordinal)
	if err != nil {
		return nil, err
	}
	ctx, err := cuda.Retain(handle)
	if err != nil {
		return nil, fmt.Errorf("gpu.OpenDevice: device %d: %w", ordinal, err)
	}
	d := &Device{info: info, handle: handle, ctx: ctx, streams: map[*Stream]struct{}{}}
	noteOpened(d)
	return d, nil
}

// localRanks are the variables in which launchers tell a process its number among
// the processes of its host.
var localRanks = []string{"OMPI_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"}

// OpenLocalDevice opens the device for this process: the rank on its host, as the
// launcher gives it in the environment, modulo the number of devices; device 0
// without a launcher. It needs no MPI, so it may come before mpicomm.Init, as some
// MPI libraries want it.
func OpenLocalDevice() (*Device, error) {
	n, err := count()
	if err != nil {
		return nil, err
	}
	for _, name := range localRanks {
		value := os.Getenv(name)
		if value == "" {
			continue
		}
		rank, err := strconv.Atoi(value)
		if err != nil || rank < 0 {
			return nil, fmt.Errorf("gpu.OpenLocalDevice: %s=%q: want a number from 0; OpenDevice takes an ordinal", name, value)
		}
		return OpenDevice(rank % n)
	}
	return OpenDevice(0)
}

// Info describes the device.
func (d *Device) Info() DeviceInfo { return d.info }

// String is the device's ordinal and name.
func (d *Device) String() string { return fmt.Sprintf("device %d (%s)", d.info.Ordinal, d.info.Name) }

// Context is the CUcontext of the device, for other libraries in the process. It
// is valid until Close.
func (d *Device) Context() uintptr { return uintptr(d.ctx) }

// MemGetInfo tells how many bytes of the device's memory are free, and how many it
// has.
func (d *Device) MemGetInfo() (free, total int, err error) {
	if err := d.enter(); err != nil {
		return 0, 0, d.wrap("MemGetInfo", err)
	}
	defer d.leave()
	free, total, err = cuda.MemGetInfo(d.ctx)
	return free, total, d.wrap("MemGetInfo", err)
}

// CanAccessPeer tells whether kernels of d can use the memory of another device
// (NVLink or PCIe peer-to-peer). Copies work either way.
func (d *Device) CanAccessPeer(peer *Device) (bool, error) {
	can, err := cuda.CanAccessPeer(d.handle, peer.handle)
	return can, d.wrap("CanAccessPeer", err)
}

// EnablePeerAccess lets kernels of d use the memory of another device. To enable it
// twice is no error.
func (d *Device) EnablePeerAccess(peer *Device) error {
	if err := d.enter(); err != nil {
		return d.wrap("EnablePeerAccess", err)
	}
	defer d.leave()
	return d.wrap("EnablePeerAccess", cuda.EnablePeerAccess(d.ctx, peer.ctx))
}

// Close gives the primary context back, and what the library kept for itself. It
// fails while buffers, streams, events or pools of the device are open.
func (d *Device) Close() error {
	err := d.end(func() error {
		if d.open > 0 {
			return fmt.Errorf("%d buffers, streams, events or pools are still open: free, destroy or close them first", d.open)
		}
		return nil
	})
	if err != nil {
		return d.wrap("Close", err)
	}
	noteClosed(d)
	var all []error
	for _, e := range d.events {
		all = append(all, cuda.EventDestroy(d.ctx, e))
	}
	if d.stage != nil {
		all = append(all, d.stage.empty())
	}
	for _, l := range d.lanes {
		if l != nil {
			all = append(all, l.close()...)
		}
	}
	all = append(all, cuda.Release(d.handle))
	return d.wrap("Close", errors.Join(all...))
}

// acquire counts an object that is about to be made.
func (d *Device) acquire() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ended {
		return ErrFreed
	}
	d.open++
	return nil
}

// release counts an object less.
func (d *Device) release() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.open--
}

func (d *Device) wrap(call string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("gpu: %s: %s: %w", call, d, err)
}
