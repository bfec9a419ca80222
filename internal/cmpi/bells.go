package cmpi

/*
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include "engine.h"

static int bells_file(uint64_t bytes) {
  int file = memfd_create("mpi4go-bells", MFD_CLOEXEC);
  if (file < 0 || ftruncate(file, bytes) == 0) return file;
  close(file);
  return -1;
}
static m4g_bells *bells_map(int file, uint64_t bytes) {
  void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  return at == MAP_FAILED ? NULL : at;
}
static uint64_t seat_at(m4g_bells *b, int rank) { return (uintptr_t)(rank < 0 ? &b->nobody : &b->seats[rank]); }
static void join(m4g_bells *b) { atomic_fetch_add(&b->present, 1); }
static void ring_all(m4g_bells *b, int size) {
  for (int i = 0; i < size; i++) m4g_knock(&b->seats[i]);
}
static void rouse_all(uint64_t p) { m4g_rouse_all((m4g_peers *)(uintptr_t)p, M4G_LISTENS); }
static void free_peers(uint64_t p) { free((void *)(uintptr_t)p); }
static void sit(m4g_engine *e, m4g_bells *b, int rank, int everybody) {
  e->bells = b;
  e->seat = &b->seats[rank];
  e->everybody = everybody;
}
*/
import "C"

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"os"
	"syscall"
	"unsafe"
)

// Bells are by what the processes of a host wake each other's drivers: memory that
// they share, in which each has a seat that says whether it sleeps. Who sends to
// one that does wakes it (FUTEX_WAKE). A bell carries no data and nothing depends
// on it. The memory has no name: the first rank of a host makes it, and the
// others, which must have the same user, find it under /proc.
type Bells struct {
	memory *C.m4g_bells // never unmapped: peers may look at it as long as they live
	file   C.int        // -1 but for the rank that made it
	rank   int
	here   []bool  // by rank of the world: it can be rung
	count  int     // of those
	world  []int32 // the ranks of the world
	every  Peers   // all that are here
}

// IntroductionSize is the length in bytes of what Introduce returns.
const IntroductionSize = 15

// NewBells makes bells for a job of a size.
func NewBells(rank, size int) (*Bells, error) {
	bytes := bellsBytes(size)
	file, err := C.bells_file(C.uint64_t(bytes))
	if file < 0 {
		return nil, fmt.Errorf("memfd_create: %w", err)
	}
	b := &Bells{file: file, rank: rank}
	if err := b.mapFile(file, size); err != nil {
		b.Close()
		return nil, err
	}
	return b, nil
}

func bellsBytes(size int) uint64 {
	return uint64(C.sizeof_m4g_bells) + uint64(size)*uint64(C.sizeof_m4g_seat)
}

func (b *Bells) mapFile(file C.int, size int) error {
	at, err := C.bells_map(file, C.uint64_t(bellsBytes(size)))
	if at == nil {
		return fmt.Errorf("mmap: %w", err)
	}
	b.memory = at
	return nil
}

// Introduce is what the other ranks need to find these bells.
func (b *Bells) Introduce() ([]byte, error) {
	if b.file > math.MaxUint16 {
		return nil, fmt.Errorf("file descriptor %d is too large", b.file)
	}
	host, err := hostHash()
	if err != nil {
		return nil, err
	}
	var text [IntroductionSize]byte
	binary.LittleEndian.PutUint64(text[:], host)
	binary.LittleEndian.PutUint32(text[8:], uint32(os.Getpid()))
	binary.LittleEndian.PutUint16(text[12:], uint16(b.file))
	text[14] = 1
	return text[:], nil
}

// hostHash names the host, as far as processes can find each other on it.
func hostHash() (uint64, error) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return 0, err
	}
	name, err := os.Hostname()
	if err != nil {
		return 0, err
	}
	pids, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return 0, err
	}
	h := fnv.New64a()
	fmt.Fprint(h, string(boot), name, "\n", pids, "\n", os.Getuid())
	return h.Sum64(), nil
}

// Meet shares the bells of the first rank of this host. The introductions are those
// of all ranks, zeros for one without.
func (b *Bells) Meet(introductions [][]byte) error {
	host := func(rank int) uint64 {
		if introductions[rank][14] != 1 {
			return 0
		}
		return binary.LittleEndian.Uint64(introductions[rank])
	}
	size := len(introductions)
	b.here, b.world = make([]bool, size), make([]int32, size)
	first := -1
	for rank := range size {
		b.world[rank] = int32(rank)
		if host(rank) != host(b.rank) {
			continue
		}
		b.here[rank] = true
		b.count++
		if first < 0 {
			first = rank
		}
	}
	if b.count == 1 {
		return errors.New("no other rank on this host")
	}
	if first != b.rank {
		b.Close()
		theirs := introductions[first]
		path := fmt.Sprintf("/proc/%d/fd/%d", binary.LittleEndian.Uint32(theirs[8:]), binary.LittleEndian.Uint16(theirs[12:]))
		file, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			return fmt.Errorf("the memory of rank %d: %w", first, err)
		}
		defer file.Close()
		if info, err := file.Stat(); err != nil || uint64(info.Size()) != bellsBytes(size) {
			return fmt.Errorf("%s is not the memory of rank %d", path, first)
		}
		if err := b.mapFile(C.int(file.Fd()), size); err != nil {
			return err
		}
	}
	b.every = b.newPeers(b.world, false)
	return nil
}

// Count is the number of ranks on this host, this one included.
func (b *Bells) Count() int { return b.count }

// Close closes the file, which the other ranks do not need any more.
func (b *Bells) Close() {
	if b.file >= 0 {
		_ = syscall.Close(int(b.file))
		b.file = -1
	}
}

// Peers is the address of an m4g_peers: the seats of a communicator's ranks. 0
// is none.
type Peers uint64

// Every stands for a communicator whose ranks are not known: all of them are rung.
func (b *Bells) Every() Peers {
	if b == nil {
		return 0
	}
	return b.every
}

// Peers makes the peers of a communicator of ranks of the world, nil for all.
func (b *Bells) Peers(ranks []int32) Peers {
	if b == nil {
		return 0
	}
	if ranks == nil {
		ranks = b.world
	}
	return b.newPeers(ranks, true)
}

func (b *Bells) newPeers(ranks []int32, known bool) Peers {
	const word = unsafe.Sizeof(uint64(0))
	here, n := make([]uint64, 0, b.count), uintptr(len(ranks))
	at := C.malloc(C.size_t(C.sizeof_m4g_peers + (n+uintptr(b.count))*word))
	if at == nil {
		panic("mpi4go: out of memory")
	}
	byRank := unsafe.Slice((*uint64)(unsafe.Add(at, C.sizeof_m4g_peers+uintptr(b.count)*word)), n)
	for i, rank := range ranks {
		seat := C.int(-1)
		if b.here[rank] && int(rank) != b.rank {
			seat = C.int(rank)
		}
		byRank[i] = uint64(C.seat_at(b.memory, seat))
		if seat >= 0 {
			here = append(here, byRank[i])
		}
	}
	copy(unsafe.Slice((*uint64)(unsafe.Add(at, C.sizeof_m4g_peers)), b.count), here)
	p := (*C.m4g_peers)(at)
	p.by_rank, p.here = nil, C.int64_t(len(here))
	if known {
		p.by_rank = (**C.m4g_seat)(unsafe.Pointer(unsafe.SliceData(byRank)))
	}
	return Peers(uintptr(at))
}

// Free frees the peers of a communicator on which nothing is started any more.
func (b *Bells) Free(p Peers) {
	if b != nil && p != b.every {
		C.free_peers(C.uint64_t(p))
	}
}

// Rouse rings for each process of this host that sleeps.
func (b *Bells) Rouse() {
	if b != nil {
		C.rouse_all(C.uint64_t(b.every))
	}
}

// Ring rings every bell of this host, whether anybody sleeps or not, for tests.
func (b *Bells) Ring() { C.ring_all(b.memory, C.int(len(b.world))) }

// Sit gives the engine its seat. If all of the job's messages come with a bell,
// as far as this process is concerned, its driver may nap longer once every other
// process has said so too.
func (e *Engine) Sit(b *Bells, all bool) {
	if all {
		C.join(b.memory)
	}
	C.sit(e.c, b.memory, C.int(b.rank), C.int(len(b.world)))
}
