package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/mpi4go/mpi4go/gpu"
	"github.com/mpi4go/mpi4go/internal/cmpi"
	kernels "github.com/mpi4go/mpi4go/internal/pattern"
	"github.com/mpi4go/mpi4go/mem"
	"github.com/mpi4go/mpi4go/mpicomm"
)

// memoryFlags say where the messages lie.
type memoryFlags struct {
	Buffers  memories `json:"buffers" name:"buffers" short:"d" default:"host" placeholder:"MEM[,MEM]" help:"Where the messages lie: host, device, managed or pinned (page-locked), or the first letter; on the first and on the second rank, as in D,H (${default})."`
	OnStream bool     `json:"stream,omitempty" name:"stream" help:"Order the messages by a stream of the device: what fills, sends, receives and verifies them is queued without waiting for the device in between."`
}

// Validate refuses a stream without a device.
func (f memoryFlags) Validate() error {
	if f.OnStream && f.Buffers.host() {
		return errors.New("--stream orders messages from and to memory of a device: -d device")
	}
	return nil
}

func (f memoryFlags) memory() memoryFlags { return f }

// mixedFlags are memoryFlags for messages of many frames, which may differ.
type mixedFlags struct {
	Buffers  mixedMemories `json:"buffers" name:"buffers" short:"d" default:"host" placeholder:"MEM[,MEM]" help:"Where the frames lie: host, device, managed or pinned (page-locked), or the first letter; on the first and on the second rank, as in D,H. Several joined by + take turns, as in D+H (${default})."`
	OnStream bool          `json:"stream,omitempty" name:"stream" help:"Order the messages by a stream of the device: what fills, sends, receives and verifies them is queued without waiting for the device in between."`
}

// Validate refuses a stream without a device.
func (f mixedFlags) Validate() error { return f.memory().Validate() }

func (f mixedFlags) memory() memoryFlags { return memoryFlags{memories(f.Buffers), f.OnStream} }

// memories are the kinds of memory on the first and on the second rank. Of several
// those of a message's frames take turns.
type memories [2][]mem.Kind

// mixedMemories may be several for each rank.
type mixedMemories memories

// UnmarshalText reads "device", "device,host", or "D H" as OSU's benchmarks have it.
func (m *memories) UnmarshalText(text []byte) error {
	if err := m.parse(string(text)); err != nil {
		return err
	}
	if len(m[0])+len(m[1]) > 2 {
		return fmt.Errorf("%q: only the frames of pingpong multi can be of several kinds", text)
	}
	return nil
}

// UnmarshalText reads "device+host,host" too.
func (m *mixedMemories) UnmarshalText(text []byte) error { return (*memories)(m).parse(string(text)) }

func (m *memories) parse(text string) error {
	sides := strings.FieldsFunc(text, func(c rune) bool { return c == ',' || c == ' ' })
	if len(sides) == 1 {
		sides = append(sides, sides[0])
	}
	if len(sides) != 2 {
		return fmt.Errorf("%q is not the memory of one rank, or of two, such as D,H", text)
	}
	for i, side := range sides {
		m[i] = nil
		for name := range strings.SplitSeq(side, "+") {
			kind := slices.IndexFunc(kinds, func(k mem.Kind) bool {
				return strings.EqualFold(name, k.String()) || strings.EqualFold(name, k.String()[:1])
			})
			if kind < 0 {
				return fmt.Errorf("%q is not host, device, managed or pinned, nor the first letter of these", name)
			}
			m[i] = append(m[i], kinds[kind])
		}
	}
	return nil
}

var kinds = []mem.Kind{mem.Host, mem.Device, mem.Managed, mem.Pinned}

// MarshalText writes it with the names.
func (m memories) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// MarshalText writes it with the names.
func (m mixedMemories) MarshalText() ([]byte, error) { return []byte(memories(m).String()), nil }

// String names the memory of both ranks.
func (m memories) String() string {
	var sides [2]string
	for i, side := range m {
		var names []string
		for _, kind := range side {
			names = append(names, kind.String())
		}
		sides[i] = strings.Join(names, "+")
	}
	return strings.Join(sides[:], ",")
}

// host tells whether everything is plain host memory, which needs no driver.
func (m memories) host() bool {
	return !slices.ContainsFunc(slices.Concat(m[0], m[1]), func(k mem.Kind) bool { return k != mem.Host })
}

// has tells whether a kind of memory is among them.
func (m memories) has(kind mem.Kind) bool {
	return slices.Contains(m[0], kind) || slices.Contains(m[1], kind)
}

// memory makes the buffers of a rank.
type memory struct {
	memoryFlags
	side    int         // of the flags: the first rank or the second
	device  *gpu.Device // nil if everything is host memory, and so is what follows
	stream  *gpu.Stream
	kernels *kernels.Kernels
	pool    *gpu.PinnedPool
	buffers []*gpu.Buffer
	able    mpicomm.DeviceMemory  // what MPI is given of it
	counted mpicomm.DeviceTraffic // see traffic
}

// pinnedLimit bounds the page-locked memory for messages.
const pinnedLimit = 64 << 30

// openMemory opens the device for a mode that wants one. That comes before MPI is
// initialised, which takes what is open then.
func openMemory(m mode) (*memory, error) {
	wants, ok := m.(interface{ memory() memoryFlags })
	if !ok || wants.memory().Buffers.host() {
		return &memory{}, nil
	}
	opened := &memory{memoryFlags: wants.memory()}
	var err error
	if opened.device, err = gpu.OpenLocalDevice(); err != nil {
		return nil, err
	}
	if opened.stream, err = opened.device.NewStream(); err != nil {
		return nil, err
	}
	if opened.kernels, err = kernels.Load(opened.device); err != nil {
		return nil, err
	}
	opened.pool, err = opened.device.NewPinnedPool(pinnedLimit)
	return opened, err
}

// close gives everything back.
func (m *memory) close() error {
	if m.device == nil {
		return nil
	}
	return errors.Join(m.reset(), m.kernels.Unload(), m.pool.Close(), m.stream.Destroy(), m.device.Close())
}

// reset frees the buffers.
func (m *memory) reset() error {
	var all []error
	for _, b := range m.buffers {
		all = append(all, b.Free())
	}
	m.buffers = nil
	return errors.Join(all...)
}

// buffer is memory that messages are sent from and received into.
type buffer struct {
	mem   mem.Buffer  // for messages
	bytes []byte      // of host memory
	gpu   *gpu.Buffer // other memory, nil for host memory
}

func (b buffer) len() int { return b.mem.Len() }

func hostBuffer(n int) buffer { return bufferOf(newBuffer(n)) }

func bufferOf(b []byte) buffer { return buffer{mem: mem.Of(b), bytes: b} }

// alloc makes a buffer that lives until the next reset, of the i-th frame of a message.
func (m *memory) alloc(ctx context.Context, n, i int) (b buffer, err error) {
	kind := mem.Host
	if m.device != nil {
		kind = m.Buffers[m.side][i%len(m.Buffers[m.side])]
	}
	allocated := max(n, 1)
	switch kind {
	case mem.Device:
		b.gpu, err = m.device.Alloc(allocated)
	case mem.Managed:
		b.gpu, err = m.device.AllocManaged(allocated)
	case mem.Pinned:
		b.gpu, err = m.pool.Alloc(ctx, allocated)
	default:
		return hostBuffer(n), nil
	}
	if err != nil {
		return b, err
	}
	m.buffers = append(m.buffers, b.gpu)
	if err = m.stream.MemsetD8Async(b.gpu, 1); err != nil {
		return b, err
	}
	if err = m.stream.Synchronize(ctx); err != nil {
		return b, err
	}
	part, err := b.gpu.Slice(0, n)
	if err != nil {
		return b, err
	}
	return m.message(part), nil
}

// contents are what validated messages are filled with.
type contents interface {
	fill(ctx context.Context, b buffer, seed int) error
	verify(ctx context.Context, b buffer, seed int) error
}

// contents returns those for messages of at most so many bytes.
func (m *memory) contents(longest int) contents {
	if m.device == nil {
		return newPattern(longest)
	}
	return onDevice{m}
}

// onDevice are contents that the device makes and verifies, where the memory is not
// plain host memory.
type onDevice struct{ *memory }

func (m onDevice) fill(ctx context.Context, b buffer, seed int) error {
	if b.gpu == nil {
		kernels.Fill(b.bytes, uint64(seed))
		return nil
	}
	err := m.kernels.Fill(m.stream, b.gpu, uint64(seed))
	if err == nil && !m.OnStream {
		err = m.stream.Synchronize(ctx)
	}
	return err
}

func (m onDevice) verify(ctx context.Context, b buffer, seed int) (err error) {
	var wrong, first int
	if b.gpu == nil {
		wrong, first = kernels.Verify(b.bytes, uint64(seed))
	} else {
		wrong, first, err = m.kernels.Verify(ctx, m.stream, b.gpu, uint64(seed))
	}
	if err == nil && wrong > 0 {
		err = fmt.Errorf("%d bytes are wrong, the first of them is byte %d", wrong, first)
	}
	return err
}

// two makes a buffer to send from and one to receive into.
func (m *memory) two(ctx context.Context, n int) (send, recv buffer, err error) {
	if send, err = m.alloc(ctx, n, 0); err == nil {
		recv, err = m.alloc(ctx, n, 0)
	}
	return send, recv, err
}

// lend gives a buffer to a C loop: a slice, or an address that Go does not know.
func (b buffer) lend(bytes *[]byte, address *uintptr) {
	if *bytes = b.bytes; b.gpu != nil {
		*address = b.mem.Addr()
	}
}

// String describes the device, "" if none is used.
func (m *memory) String() string {
	if m.device == nil {
		return ""
	}
	major, minor, _ := gpu.DriverVersion()
	info := m.device.Info()
	return fmt.Sprintf("%s, %s, %s, compute capability %d.%d, %d MiB, driver for CUDA %d.%d",
		info.Name, info.UUID, info.PCIBusID, info.Major, info.Minor, info.TotalMem>>20, major, minor)
}

// notes adds what is to be said of the memory.
func (m *memory) notes(notes ...string) []string {
	if m.device == nil {
		return notes
	}
	notes = append(notes,
		"memory of the first and the second rank: "+m.Buffers.String()+"; device: "+m.String(),
		"path: direct = MPI was given addresses of device memory, staged = the bytes went through page-locked host memory, - = neither")
	if m.OnStream {
		notes = append(notes, "the messages are ordered by a stream of the device")
	}
	return notes
}

// mpiTakes tells whether MPI can be given all of the memory as it is.
func (m *memory) mpiTakes() mpicomm.Capability {
	if !m.Buffers.has(mem.Device) {
		return mpicomm.Capability{Able: true, Why: "it is memory of the host too"}
	}
	return m.able.PointToPoint
}

// collectiveAble tells whether MPI can be given all of the memory in a collective.
func (m *memory) collectiveAble() mpicomm.Capability {
	if takes := m.mpiTakes(); !takes.Able || !m.Buffers.has(mem.Device) {
		return takes
	}
	return m.able.Collectives
}

// traffic is how many operations have travelled directly, and how many bytes staged,
// since it was last asked for.
func (m *memory) traffic() []float64 {
	now := mpicomm.CountDeviceTraffic()
	since := []float64{float64(now.Direct - m.counted.Direct), float64(now.StagedOut - m.counted.StagedOut + now.StagedIn - m.counted.StagedIn)}
	m.counted = now
	return since
}

// path says how the messages of a row have travelled, "" if no device was used.
type path struct {
	Path string `json:"path,omitempty"`
}

func pathOf(traffic []float64) path {
	switch direct, staged := traffic[0] > 0, traffic[1] > 0; {
	case direct && staged:
		return path{"direct+staged"}
	case direct:
		return path{"direct"}
	case staged:
		return path{"staged"}
	}
	return path{"-"}
}

func (p path) columns() []column {
	if p.Path == "" {
		return nil
	}
	return []column{{"path", "%s", p.Path}}
}

// uniform tells whether all frames of a message lie in memory of one kind, on either
// rank.
func (m *memory) uniform() bool { return len(m.Buffers[0]) < 2 && len(m.Buffers[1]) < 2 }

// frames makes the buffers for the frames of a message: parts of one, whole, that are
// stride bytes apart, if they are of one kind of memory.
func (m *memory) frames(ctx context.Context, n, size, stride int) (whole buffer, frames []buffer, err error) {
	if !m.uniform() {
		for i := range n {
			b, err := m.alloc(ctx, size, i)
			if err != nil {
				return whole, nil, err
			}
			frames = append(frames, b)
		}
		return whole, frames, nil
	}
	if whole, err = m.alloc(ctx, max(n*stride, 1), 0); err != nil {
		return whole, nil, err
	}
	for i := range n {
		f, err := m.part(whole, i*stride, size)
		if err != nil {
			return whole, nil, err
		}
		frames = append(frames, f)
	}
	return whole, frames, nil
}

// part is some bytes of a buffer.
func (m *memory) part(b buffer, at, n int) (buffer, error) {
	if b.gpu == nil {
		return bufferOf(b.bytes[at : at+n]), nil
	}
	part, err := b.gpu.Slice(at, at+n)
	if err != nil {
		return buffer{}, err
	}
	return m.message(part), nil
}

// message is a buffer as messages take it.
func (m *memory) message(b *gpu.Buffer) buffer {
	if m.OnStream {
		return buffer{mem: b.On(m.stream), gpu: b}
	}
	return buffer{mem: b.Mem(), gpu: b}
}

// planAble tells whether a C loop for messages of many frames can have the memory.
func (m *memory) planAble(mode cmpi.BenchMode) bool {
	switch {
	case !m.uniform():
		return false
	case !m.Buffers.has(mem.Device):
		return true
	case mode == cmpi.BenchFramesPacked: // copies with the processor
		return false
	case mode == cmpi.BenchFramesDatatype:
		return m.able.Datatypes.Able
	}
	return true
}
