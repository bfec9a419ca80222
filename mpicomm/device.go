package mpicomm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/mpi4go/mpi4go/internal/cmpi"
	"github.com/mpi4go/mpi4go/internal/device"
	"github.com/mpi4go/mpi4go/internal/progress"
	"github.com/mpi4go/mpi4go/mem"
)

// Device memory goes to MPI only where MPI is known to take it. Everywhere else the
// bytes of an operation are staged: copied whole to page-locked memory before a send, and
// from there after a receive. The operation is the same single message of MPI. In
// either case it comes after what the device has still to do with the memory.
//
// Such an operation is late: its request is done by a goroutine here (carrier), by way
// of an operation on host memory, or of the same one when the device is ready.

// DeviceTraffic counts what the operations of this process have done with device
// memory.
type DeviceTraffic struct {
	Direct    int // operations to which MPI was given device memory
	StagedOut int // bytes copied from devices, to be sent
	StagedIn  int // bytes copied to devices, after they were received
}

// CountDeviceTraffic returns the counts since the start of the process.
func CountDeviceTraffic() DeviceTraffic {
	return DeviceTraffic{int(device.Direct.Load()), int(device.StagedOut.Load()), int(device.StagedIn.Load())}
}

// special tells whether an operation may not be simply for MPI: its memory is perhaps a
// device's, or others are late that it may be behind. Every operation asks; carry knows.
func (op *Op) special() bool { return !op.Buf.Plain() || op.comm.late.busy.Load() != 0 }

func (op *Op) sends() bool { return op.Kind == cmpi.Send || op.Kind == cmpi.Ssend }

// carrier carries out an operation that is late.
type carrier struct {
	p      *process
	op     Op
	mem    device.Memory // nil for plain memory
	direct bool          // MPI gets the memory itself
	turn   *turn         // of a send or a collective
	r      *Request      // what the caller has

	ctx    context.Context // ends when the request is cancelled
	cancel context.CancelFunc

	match *Request // of a receive: what matches the message, then receives it
	held  *Message // or the message, matched already
	pool  bool     // match comes from requests
	part  bool     // of a set
}

// carry looks at the memory of an operation that is special. It returns nil if the
// operation is for MPI as it is.
func (p *process) carry(op *Op) (*carrier, error) {
	if op.Ready {
		return nil, nil
	}
	c := &carrier{p: p, op: *op, direct: true}
	ready := true
	switch kind := op.Buf.Kind(); {
	case op.Buf.Len() == 0 || op.Peer == ProcNull && op.Coll == nil:
		op.Buf = mem.Buffer{}
		c.op.Buf = op.Buf
	case op.Buf.Plain():
	case device.Registered() == nil:
		if kind == mem.Device {
			return nil, fmt.Errorf("%s: device memory needs package gpu, which this program does not import: %w", kindNames[op.Kind], errUnsupported)
		}
	default:
		memory, err := device.Registered().Memory(op.Buf)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", kindNames[op.Kind], err)
		}
		able := p.able.PointToPoint
		if op.Coll != nil {
			able = p.able.Collectives
		}
		c.mem, c.direct, ready = memory, p.takes(able, memory), memory.Ready()
	}
	if !c.direct && (op.sends() || op.Coll != nil) {
		if err := c.checkLimit(op.Buf.Len()); err != nil {
			return nil, fmt.Errorf("%s: %w", kindNames[op.Kind], err)
		}
	}
	late := !ready || !c.direct
	if op.sends() || op.Coll != nil {
		dest := op.Peer
		if op.Coll != nil {
			dest = none
		}
		c.turn = op.comm.late.join(dest, late)
		late = c.turn != nil
	}
	if !late {
		c.countDirect()
		return nil, nil
	}
	return c, nil
}

// takes tells whether MPI is given the memory where it is able to take some.
func (p *process) takes(able Capability, m device.Memory) bool {
	return m.Device() < 0 || able.Able && m.Device() == p.device.Ordinal && !m.Pool()
}

func (c *carrier) countDirect() {
	if c.mem != nil && c.mem.Device() >= 0 {
		device.Direct.Add(1)
	}
}

// checkLimit tells whether so many bytes can be staged as one.
func (c *carrier) checkLimit(n int) error {
	if limit := c.p.config.StagingLimit; n > limit {
		return fmt.Errorf("%w: %d bytes of device memory: this MPI does not take them, and a plain message is staged whole, up to Config.StagingLimit, %d bytes: send it with coro.SendMessage, which goes in pieces, or raise the limit", ErrNoMem, n, limit)
	}
	return nil
}

// prepare makes the request. A receive takes its place among the receives.
func (c *carrier) prepare() *Request {
	c.r = &Request{comm: c.op.comm}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	spec := c.op.Spec
	if c.part {
		c.r.op.Part()
	}
	c.r.op.Later(c.p.engine, 1, func(int) progress.Spec { return spec }, c.cancel)
	if c.op.Kind == cmpi.Recv {
		c.match = c.inner(c.op.comm.op(cmpi.Mprobe, mem.Buffer{}, c.op.Peer, c.op.Tag).Spec)
		c.match.op.Reserve()
		c.p.engine.Begin(&c.match.op)
	}
	return c.r
}

// start prepares and runs.
func (c *carrier) start() *Request {
	r := c.prepare()
	go c.run()
	return r
}

// abandon ends what was carried and never prepared.
func (c *carrier) abandon() {
	if c.turn != nil {
		go c.turn.leave()
	}
}

// refuse ends what was prepared and is not to be run.
func (c *carrier) refuse(err error) {
	c.abandon()
	c.settle(progress.Result{}, err)
}

// run carries the operation out.
func (c *carrier) run() {
	if c.op.sends() || c.op.Coll != nil {
		c.settle(c.send())
	} else {
		c.settle(c.receive())
	}
}

func (c *carrier) settle(res progress.Result, err error) {
	c.cancel()
	c.r.refused = err
	c.r.op.Settle(func(int) progress.Result { return res })
}

// inner is an operation by which this one is carried out.
func (c *carrier) inner(spec progress.Spec) *Request {
	r := &Request{comm: c.op.comm}
	r.op.Part()
	r.op.Init(c.p.engine, spec)
	return r
}

var forever = context.Background()

// send posts a send, or a collective, when its memory is ready and what was called before it
// is posted.
func (c *carrier) send() (res progress.Result, err error) {
	receives := c.op.Coll != nil && !c.op.isRoot() // into c.op.Buf
	spec := c.op.Spec
	var piece device.Piece
	c.turn.awaitStaged()
	if c.mem != nil {
		err = c.mem.Await(forever)
	}
	if err == nil && !c.direct {
		dir := device.Out
		if receives {
			dir = device.In
		}
		if piece, err = c.mem.Take(forever, dir, spec.Buf.Len(), true); err == nil {
			defer func() {
				if piece != nil {
					piece.Free()
				}
			}()
			spec.Buf = piece.Buffer()
		}
	}
	c.turn.hasStaged()
	if err == nil && !c.direct && !receives {
		err = c.copy(device.Out, piece)
	}
	c.turn.awaitPosted()
	if err != nil {
		c.turn.leave()
		return res, err
	}
	if c.direct {
		c.countDirect()
	}
	inner := c.inner(spec)
	c.p.engine.Begin(&inner.op)
	c.turn.leave()
	_ = c.p.engine.Wait(forever, &inner.op)
	_, r := inner.op.At(0)
	if r.Code == 0 && !c.direct && receives {
		piece, err = c.land(piece)
	}
	return *r, err
}

// copy copies all of the memory to a piece, and waits for it.
func (c *carrier) copy(dir device.Direction, piece device.Piece) error {
	work, err := c.mem.Copy(dir, 0, piece, true)
	if err != nil {
		return err
	}
	return work.Wait(forever)
}

// land copies a piece into the memory. It returns the piece if that can be freed.
func (c *carrier) land(piece device.Piece) (device.Piece, error) {
	work, err := c.mem.Copy(device.In, 0, piece, true)
	switch {
	case err != nil:
		return piece, err
	case work.Behind(): // the caller's stream waits for it
		work.Release(piece)
		return nil, nil
	}
	return piece, work.Wait(forever)
}

// receive waits for a message to match, and receives it.
func (c *carrier) receive() (progress.Result, error) {
	if c.match == nil {
		return c.take(c.held.status.Count)
	}
	if c.p.engine.Wait(c.ctx, &c.match.op) != nil {
		c.p.cancel(&c.match.op)
		_ = c.p.engine.Wait(forever, &c.match.op)
	}
	_, res := c.match.op.At(0)
	if res.Code != 0 || res.Cancelled {
		return *res, nil
	}
	return c.take(int(res.Count))
}

// take receives a matched message of n bytes. If it fails before that, the message is
// left to the next receive.
func (c *carrier) take(n int) (res progress.Result, err error) {
	buf := c.op.Buf
	var piece device.Piece
	switch {
	case n > buf.Len() || n == 0: // nothing of it is kept
		buf = mem.Buffer{}
	case c.direct:
		if err = c.mem.Await(forever); err == nil {
			c.countDirect()
		}
	default:
		if err = c.checkLimit(n); err == nil {
			piece, err = c.mem.Take(forever, device.In, n, true)
		}
		if err == nil {
			defer func() {
				if piece != nil {
					piece.Free()
				}
			}()
			buf = piece.Buffer()
			err = c.mem.Await(forever)
		}
	}
	if err != nil {
		c.giveBack()
		return res, err
	}
	res = c.imrecv(buf)
	if res.Code == 0 && piece != nil {
		piece, err = c.land(piece)
	}
	return res, err
}

// imrecv receives the matched message into host memory, or memory that MPI takes.
func (c *carrier) imrecv(buf mem.Buffer) progress.Result {
	if c.match != nil {
		c.match.op.Again(cmpi.Imrecv, buf)
	} else {
		spec := c.op.Spec
		spec.Buf = buf
		c.match = c.inner(spec)
		c.match.op.Matched(c.held.handle, int64(c.held.status.Count))
	}
	_ = c.p.engine.Run(forever, &c.match.op)
	_, res := c.match.op.At(0)
	got := *res
	if c.pool {
		recycle(c.match)
	}
	return got
}

func (c *carrier) giveBack() {
	if c.held != nil {
		c.held.taken.Store(false)
		return
	}
	c.match.op.Again(cmpi.Unmatch, mem.Buffer{})
	_ = c.p.engine.Run(forever, &c.match.op)
	if c.pool {
		recycle(c.match)
	}
}

// doSpecial is Do for an operation that is special; handled is false if it turns out to
// be for MPI as it is.
func (p *process) doSpecial(ctx context.Context, op *Op) (status Status, handled bool, err error) {
	c, err := p.carry(op)
	if err != nil || c == nil {
		return Status{}, err != nil, err
	}
	r, queued := c.begin()
	if queued {
		return Status{}, true, nil
	}
	status, err = r.await(ctx)
	return status, true, err
}

// begin starts the operation. A short send of host memory is copied, and queued is true:
// it is done for its caller.
func (c *carrier) begin() (r *Request, queued bool) {
	const most = 4096 // of them
	if c.op.Kind != cmpi.Send || c.mem != nil || c.op.Buf.Len() > cmpi.ScratchSize || c.op.comm.late.busy.Load() > most {
		return c.start(), false
	}
	c.op.Buf = mem.Of(bytes.Clone(c.op.Buf.Bytes()))
	r = c.start()
	go func() {
		<-r.op.Chan()
		if _, res := r.op.At(0); res.Code != 0 {
			c.op.comm.sendFailed(&cmpi.Op{RC: res.Code, Peer: int32(c.op.Peer), Tag: int32(c.op.Tag)})
		}
	}()
	return r, true
}

// await is what Do does with an operation that was started.
func (r *Request) await(ctx context.Context) (Status, error) {
	if r.comm.p.engine.Wait(ctx, &r.op) != nil && !r.settle() {
		return Status{}, r.inFlight(ctx)
	}
	return r.settled(ctx)
}

// postSpecial is post for a set of which some operations may be special; it returns nil
// if none turns out to be.
func (p *process) postSpecial(ops []Op) (*Request, error) {
	carriers, late := make([]*carrier, len(ops)), false
	for i := range ops {
		if !ops[i].special() {
			continue
		}
		c, err := p.carry(&ops[i])
		if err != nil {
			for _, c := range carriers[:i] {
				if c != nil {
					c.abandon()
				}
			}
			return nil, fmt.Errorf("operation %d of %d: %w", i, len(ops), err)
		}
		carriers[i], late = c, late || c != nil
	}
	if !late {
		return nil, nil
	}
	r := &Request{comm: ops[0].comm, members: make([]*Request, len(ops))}
	specs := make([]progress.Spec, len(ops))
	for i, c := range carriers {
		specs[i] = ops[i].Spec
		if c != nil {
			c.part = true
			r.members[i] = c.start()
			continue
		}
		m := &Request{comm: ops[i].comm}
		m.op.Part()
		m.op.Init(p.engine, specs[i])
		p.engine.Begin(&m.op)
		r.members[i] = m
	}
	r.op.Later(p.engine, len(ops), func(i int) progress.Spec { return specs[i] }, func() {
		for _, m := range r.members {
			p.cancel(&m.op)
		}
	})
	go func() {
		for _, m := range r.members {
			_ = p.engine.Wait(forever, &m.op)
		}
		r.op.Settle(func(i int) progress.Result {
			_, res := r.members[i].op.At(0)
			return *res
		})
	}()
	return r, nil
}

// recvSpecial goes on with RecvAlloc when alloc has returned memory that is not plain:
// r is the match. Handled is false if MPI gets the memory as it is.
func (p *process) recvSpecial(ctx context.Context, r *Request, buf mem.Buffer) (status Status, handled bool, err error) {
	spec, _ := r.op.At(0)
	op := r.comm.op(cmpi.Imrecv, buf, spec.Peer, spec.Tag)
	c, err := p.carry(&op)
	if err != nil || c == nil {
		return Status{}, false, err
	}
	c.match, c.pool = r, true
	_, res := r.op.At(0)
	n := int(res.Count)
	outer := c.prepare()
	go func() { c.settle(c.take(n)) }()
	status, err = outer.await(ctx)
	return status, true, err
}

// ---- what Init finds out ----

// Capability is something that the MPI library can do with device memory, or cannot.
type Capability struct {
	Able bool
	Why  string // what shows it, or what speaks against it
}

// DeviceMemory tells what MPI is given device memory for. Everything else is staged
// through page-locked host memory.
type DeviceMemory struct {
	Device       string     // the one whose memory MPI is given; "" if none, and why is in the capabilities
	PointToPoint Capability // sends and receives of contiguous memory
	Datatypes    Capability // derived datatypes
	Collectives  Capability // non-blocking collectives
}

// attachDevice prepares the device that MPI is to use, before it is initialised.
func (p *process) attachDevice() (err error) {
	d := device.Registered()
	if d == nil {
		return nil
	}
	d.Limit(p.config.StagingLimit)
	if p.device, err = d.Attach(); err == nil && p.device != nil {
		cmpi.UseDevice(p.device.Hook, p.device.Context)
	}
	return err
}

// detachDevice ends that, after MPI.
func (p *process) detachDevice() error {
	if p.device == nil {
		return nil
	}
	cmpi.UseDevice(0, 0)
	return p.device.Release()
}

// judgeDevice decides what MPI is given device memory for.
func (p *process) judgeDevice() {
	found := p.lib.DeviceMemory()
	p.able = DeviceMemory{
		PointToPoint: Capability(found.PointToPoint), Datatypes: Capability(found.Datatypes), Collectives: Capability(found.Collectives),
	}
	all := []*Capability{&p.able.PointToPoint, &p.able.Datatypes, &p.able.Collectives}
	if p.config.DeviceMemory != autoDevice {
		chosen, _ := parseDeviceMemory(p.config.DeviceMemory)
		for i, c := range all {
			*c = Capability{chosen[i], "Config.DeviceMemory says so"}
		}
	}
	if p.device == nil {
		for _, c := range all {
			if c.Able {
				*c = Capability{false, "no device was open when Init was called: call gpu.OpenDevice before (" + c.Why + ")"}
			}
		}
		return
	}
	able := false
	for _, c := range all {
		able = able || c.Able
	}
	if !able {
		p.engine.Exclusive(func() { cmpi.UseDevice(0, 0) })
		return
	}
	p.able.Device = fmt.Sprintf("device %d (%s)", p.device.Ordinal, p.device.Name)
}

// autoDevice is the value of Config.DeviceMemory by which Init finds out.
const autoDevice = "auto"

var deviceUses = []string{"point-to-point", "datatypes", "collectives"}

// parseDeviceMemory reads Config.DeviceMemory: "auto", "none" or a list of uses.
func parseDeviceMemory(text string) (uses [3]bool, err error) {
	if text == autoDevice || text == "none" {
		return uses, nil
	}
	for word := range strings.SplitSeq(text, ",") {
		i := slices.Index(deviceUses, strings.TrimSpace(word))
		if i < 0 {
			return uses, fmt.Errorf("%q: want auto, none, or some of point-to-point, datatypes, collectives, with commas between them", text)
		}
		uses[i] = true
	}
	if (uses[1] || uses[2]) && !uses[0] {
		return uses, errors.New("datatypes and collectives need point-to-point")
	}
	return uses, nil
}
