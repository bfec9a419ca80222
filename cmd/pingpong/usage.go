package main

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// threads is the number of OS threads of this process.
func threads() int { return statusNumber("Threads:") }

// residentBytes is the memory of this process that is in RAM.
func residentBytes() int { return statusNumber("VmRSS:") * 1024 }

// statusNumber is a number of /proc/self/status, 0 if it is not there.
func statusNumber(name string) int {
	status, _ := os.ReadFile("/proc/self/status")
	for line := range bytes.Lines(status) {
		if value, ok := bytes.CutPrefix(line, []byte(name)); ok {
			n, _ := strconv.Atoi(string(bytes.Fields(value)[0]))
			return n
		}
	}
	return 0
}

// residentFileBytes is what of it are pages of files, such as code.
func residentFileBytes() int { return statusNumber("RssFile:") * 1024 }

// peakBytes is the most memory of this process that was in RAM since resetPeak.
func peakBytes() int { return statusNumber("VmHWM:") * 1024 }

// resetPeak makes peakBytes count from now on.
func resetPeak() error {
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil { // proc(5)
		return fmt.Errorf("the peak of resident memory cannot be reset here: %w", err)
	}
	return nil
}

// mallocs is the number of heap allocations so far, and their bytes.
func mallocs() (n, bytes uint64) {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Mallocs, m.TotalAlloc
}

// cpuTime is the user and system time of all threads of this process.
func cpuTime() time.Duration {
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage) // it cannot fail for this process
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// monotonic is CLOCK_MONOTONIC in nanoseconds, which time.Now does not show.
func monotonic() int64 {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) // it cannot fail for this clock
	return now.Nano()
}

// clockIdentity is equal for processes that share CLOCK_MONOTONIC: those of one
// kernel, in one time namespace. It is "" if that cannot be told.
func clockIdentity() string {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	namespace, _ := os.Readlink("/proc/self/ns/time") // not in kernels that have no such thing
	return string(boot) + namespace
}
