// Columns sends the columns of a dataframe as one message and rebuilds them on
// the other side: numbers, and strings that may be missing, as Arrow lays them
// out (offsets, validity bits, bytes). Run it with mpirun -n 2. With -gpu the numbers
// are in the memory of a GPU (gpu.go).
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"strings"
	"unsafe"

	"github.com/mpi4go/mpi4go/coro"
	"github.com/mpi4go/mpi4go/mem"
	"github.com/mpi4go/mpi4go/mpicomm"
)

// table has a row for each city.
type table struct {
	population []int64
	area       []float64
	offsets    []int32 // where each name begins in names, and where the last one ends
	valid      []byte  // a bit for each name
	names      []byte
}

// frames are the table's five buffers, none of them copied.
func (t *table) frames() ([]mem.Buffer, error) {
	return mem.Frames(t.population, t.area, t.offsets, t.valid, t.names)
}

// name is that of a row, if it has one.
func (t *table) name(row int) string {
	if t.valid[row/8]>>(row%8)&1 == 0 {
		return "?"
	}
	return string(t.names[t.offsets[row]:t.offsets[row+1]])
}

func (t *table) String() string {
	var b strings.Builder
	for row, people := range t.population {
		fmt.Fprintf(&b, "%s: %d people on %g km2\n", t.name(row), people, t.area[row])
	}
	return b.String()
}

// receive makes the columns of the lengths that the message has, and receives into them.
func receive(ctx context.Context, c *mpicomm.Comm, source, tag int) (*table, error) {
	var t table
	_, err := coro.RecvMessageAlloc(ctx, c, source, tag, t.alloc)
	return &t, err
}

// alloc makes the columns for a message.
func (t *table) alloc(in coro.Incoming) ([]mem.Buffer, error) {
	if len(in.Frames) != 5 {
		return nil, fmt.Errorf("a table has 5 buffers, not %d", len(in.Frames))
	}
	*t = table{column[int64](in.Frames[0]), column[float64](in.Frames[1]), column[int32](in.Frames[2]), column[byte](in.Frames[3]), column[byte](in.Frames[4])}
	return t.frames()
}

func column[T mem.Element](f coro.FrameInfo) []T { return make([]T, f.Len/int(unsafe.Sizeof(*new(T)))) }

// run sends on rank 0 and receives on rank 1. The device may be nil.
func run(ctx context.Context, world *mpicomm.Comm, d *device) error {
	const tag = 1
	if world.Rank() == 0 {
		cities := table{
			population: []int64{3_500_000, 12, 2_100_000},
			area:       []float64{891.1, 0.5, 105.4},
			offsets:    []int32{0, 6, 6, 11},
			valid:      []byte{0b101},
			names:      []byte("BerlinParis"),
		}
		if d != nil {
			return d.send(ctx, world, &cities, 1, tag)
		}
		frames, err := cities.frames()
		if err != nil {
			return err
		}
		return coro.SendMessage(ctx, world, frames, 1, tag)
	}
	if world.Rank() == 1 {
		receive := receive
		if d != nil {
			receive = d.receive
		}
		cities, err := receive(ctx, world, 0, tag)
		if err != nil {
			return err
		}
		fmt.Print(cities)
	}
	return nil
}

var onGPU = flag.Bool("gpu", false, "keep the numbers in the memory of a GPU")

func main() {
	flag.Parse()
	var d *device
	if *onGPU { // before MPI is initialised, which takes over the GPU that is open then
		var err error
		if d, err = openDevice(); err != nil {
			log.Fatal(err)
		}
	}
	if err := mpicomm.Init(mpicomm.Config{}); err != nil {
		log.Fatal(err)
	}
	if err := run(context.Background(), mpicomm.World(), d); err != nil {
		log.Print(err)
		mpicomm.Abort(1)
	}
	if err := mpicomm.Finalize(); err != nil {
		log.Fatal(err)
	}
	if d != nil {
		if err := d.close(); err != nil {
			log.Fatal(err)
		}
	}
}
