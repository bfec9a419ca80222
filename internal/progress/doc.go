// Package progress is the engine: it alone calls MPI, it alone polls, and it
// owns the pins and buffers of the operations in flight.
//
// MPI makes progress only inside MPI calls and has nothing to wait on, so
// somebody has to poll. One goroutine at a time does: it holds the lead. There
// are three cases.
//
//   - The lead is free. A goroutine that starts or awaits an operation takes it,
//     posts and polls in a single cgo call (cmpi.Engine.Poll), and gives it
//     back. A short message to a waiting peer completes right there.
//   - Another goroutine leads. The operation goes onto a lock-free stack that
//     the leader drains from C, and the goroutine parks until the leader, or
//     one of its successors, completes it. So a thousand waiting goroutines
//     hold no thread, and many small operations share one poll.
//   - The driver leads. It is a goroutine in the background that polls when
//     nobody else does. It spins, then naps, longer and longer; whoever wants
//     the lead gets it within a poll.
//
// A waiter leads for at most LeadTime, then asks the driver to take over and
// parks as well. When nothing is outstanding nobody polls.
//
// Where MPI gives less than MPI_THREAD_SERIALIZED the driver is the thread that
// initialised MPI and leads for ever; everybody else pushes.
//
// engine.go has the lead, wait.go what a waiter does, driver.go the driver,
// slots.go the operations' memory.
package progress
