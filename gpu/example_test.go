package gpu_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/mpi4go/mpi4go/gpu"
	"github.com/mpi4go/mpi4go/mem"
)

// Numbers go to the device and come back. On a machine without a driver the first
// call says so.
func Example() {
	d, err := gpu.OpenLocalDevice()
	if errors.Is(err, gpu.ErrNotSupported) {
		fmt.Println("no GPU here:", err)
		return
	}
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()
	s, err := d.NewStream()
	if err != nil {
		log.Fatal(err)
	}
	defer s.Destroy()
	b, err := d.Alloc(3 * 8)
	if err != nil {
		log.Fatal(err)
	}
	defer b.Free()

	ctx := context.Background()
	if err := gpu.Memcpy(ctx, s, b, []float64{1, 2, 3}); err != nil {
		log.Fatal(err)
	}
	last, err := b.Slice(16, 24)
	if err != nil {
		log.Fatal(err)
	}
	if err := s.MemsetD8Async(last, 0); err != nil {
		log.Fatal(err)
	}
	back := make([]float64, 3)
	if err := gpu.Memcpy(ctx, s, back, b); err != nil {
		log.Fatal(err)
	}
	fmt.Println(back)
	// Output: [1 2 0]
}

// A copy from page-locked memory needs no detour. The event says when it is done, while
// the program does something else.
func ExampleDevice_NewPinnedPool() {
	d, err := gpu.OpenDevice(0)
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()
	pool, err := d.NewPinnedPool(64 << 20)
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	s, err := d.NewStream()
	if err != nil {
		log.Fatal(err)
	}
	defer s.Destroy()
	copied, err := d.NewEvent()
	if err != nil {
		log.Fatal(err)
	}
	defer copied.Destroy()
	onDevice, err := d.Alloc(1 << 20)
	if err != nil {
		log.Fatal(err)
	}
	defer onDevice.Free()

	ctx := context.Background()
	pinned, err := pool.Alloc(ctx, 1<<20)
	if err != nil {
		log.Fatal(err)
	}
	defer pinned.Free() // back to the pool
	copy(pinned.Mem().Bytes(), "page-locked")
	if err := errors.Join(s.MemcpyAsync(onDevice, pinned), copied.Record(s)); err != nil {
		log.Fatal(err)
	}
	if err := copied.Synchronize(ctx); err != nil {
		log.Fatal(err)
	}
	p, err := gpu.Inspect(onDevice.Mem().Addr())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(p.Kind == mem.Device, p.Size, pinned.Kind())
	// Output: true 1048576 pinned
}

// One stream waits for what another has queued, without waiting here.
func ExampleStream_WaitEvent() {
	d, err := gpu.OpenDevice(0)
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()
	producer, err := d.NewStream()
	if err != nil {
		log.Fatal(err)
	}
	defer producer.Destroy()
	consumer, err := d.NewStream()
	if err != nil {
		log.Fatal(err)
	}
	defer consumer.Destroy()
	filled, err := d.NewEvent()
	if err != nil {
		log.Fatal(err)
	}
	defer filled.Destroy()
	b, err := d.Alloc(4)
	if err != nil {
		log.Fatal(err)
	}
	defer b.Free()

	err = errors.Join(producer.MemsetD8Async(b, 7), filled.Record(producer), consumer.WaitEvent(filled))
	if err != nil {
		log.Fatal(err)
	}
	got := make([]byte, 4)
	if err := gpu.Memcpy(context.Background(), consumer, got, b); err != nil {
		log.Fatal(err)
	}
	fmt.Println(got)
	// Output: [7 7 7 7]
}
