#define _GNU_SOURCE
#include "engine.h"

#include <dlfcn.h>
#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

m4g_device m4g_use_device;

void *m4g_open(const char *path, int global, char *text, int size) {
  void *library = dlopen(path, RTLD_NOW | (global ? RTLD_GLOBAL : RTLD_LOCAL));
  if (library == NULL) {
    const char *why = dlerror();
    strncpy(text, why != NULL ? why : "unknown", size - 1);
    text[size - 1] = 0;
  }
  return library;
}

void *m4g_loaded(const char *soname) { return dlopen(soname, RTLD_NOW | RTLD_NOLOAD); }

int m4g_has(void *library, const char *symbol) { return dlsym(library, symbol) != NULL; }

int m4g_query_cuda(void *library) {
  int (*query)(void);
  *(void **)&query = dlsym(library, "MPIX_Query_cuda_support");
  return query != NULL ? query() != 0 : -1;
}

int m4g_query_gpu(void *library) {
  enum { CUDA = 0 }; // MPIX_GPU_SUPPORT_CUDA
  int (*query)(int type, int *supported), supported = 0;
  *(void **)&query = dlsym(library, "MPIX_GPU_query_support");
  if (query == NULL) return -1;
  return query(CUDA, &supported) == 0 && supported != 0;
}

int m4g_flag(void *library, const char *symbol) {
  const char *flag = dlsym(library, symbol);
  return flag != NULL ? *flag != 0 : -1;
}

int m4g_abi_version(void *library) {
  int (*get_version)(int *major, int *minor), major = -1, minor = -1;
  *(void **)&get_version = dlsym(library, "MPI_Abi_get_version");
  return get_version != NULL && get_version(&major, &minor) == 0 ? major : -1;
}

m4g_engine *m4g_engine_new(const m4g_family *family) {
  m4g_engine *e = aligned_alloc(64, sizeof *e);
  if (e == NULL) return NULL;
  memset(e, 0, sizeof *e);
  e->family = family;
  e->seat = &e->own;
  return e;
}

m4g_op *m4g_op_slab(int n) {
  m4g_op *ops = aligned_alloc(64, n * sizeof *ops);
  if (ops != NULL) memset(ops, 0, n * sizeof *ops);
  return ops;
}

uint64_t m4g_poll(m4g_engine *e, m4g_op *chain, uint32_t target, uint32_t want, uint32_t spins, uint32_t flags) {
  return e->family->poll(e, chain, target, want, spins, flags);
}

// ---- the driver ----

static int64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000LL + t.tv_nsec;
}

// only_listens tells whether nothing but messages of others is waited for.
static int only_listens(const m4g_engine *e) {
  enum { LOOK = 256 };
  if (e->tail - e->head > LOOK) return 0;
  for (int64_t i = e->head; i < e->tail; i++)
    if (e->posted[i] != NULL && e->posted[i]->kind != M4G_RECV) return 0;
  return 1;
}

uint32_t m4g_listen(m4g_engine *e, int briefly) {
  uint32_t bell = atomic_load(&e->seat->bell);
  if (e->bells != NULL) atomic_store(&e->seat->asleep, briefly ? M4G_DOZES : only_listens(e) ? M4G_LISTENS : M4G_SENDS);
  return bell;
}

int m4g_nap(m4g_engine *e, int64_t ns, uint32_t bell, int flags) {
  struct timespec t = {ns / 1000000000, ns % 1000000000};
  int rung = 0;
  atomic_store(&e->napping, ns > 500000 ? M4G_LONG_NAP : M4G_SHORT_NAP);
  int busy = atomic_load(&e->stop) != 0;
  // Where one thread makes every call, nobody else starts what is submitted.
  if (flags & M4G_FUNNEL && atomic_load(&e->stack) != 0) busy = 1;
  if (!busy) {
    m4g_seat *seat = flags & M4G_DEAF ? &e->own : e->seat;
    rung = syscall(SYS_futex, &seat->bell, FUTEX_WAIT, bell, &t, NULL, 0) == 0 || errno == EAGAIN;
  }
  if (e->bells != NULL) atomic_store(&e->seat->asleep, 0);
  // m4g_ring comes from who has set napping before.
  return atomic_exchange(&e->napping, M4G_AWAKE) != M4G_AWAKE && rung && !(flags & M4G_DEAF);
}

void m4g_knock(m4g_seat *seat) {
  atomic_fetch_add(&seat->bell, 1);
  syscall(SYS_futex, &seat->bell, FUTEX_WAKE, 1, NULL, NULL, 0);
}

void m4g_wake(m4g_seat *seat) {
  if (atomic_exchange(&seat->asleep, 0) != 0) m4g_knock(seat);
}

void m4g_rouse_all(const m4g_peers *p, uint32_t least) {
  for (int64_t i = 0; i < p->here; i++) m4g_rouse(p->seats[i], least);
}

void m4g_ring(m4g_engine *e) {
  m4g_knock(&e->own); // for naps that are deaf to the others
  if (e->seat != &e->own) m4g_knock(e->seat);
}

static int take(m4g_engine *e) {
  uint32_t free_lead = M4G_FREE_LEAD;
  return atomic_compare_exchange_strong(&e->lead, &free_lead, M4G_DRIVER);
}

// nap_length is how long to nap at most, so long after the last event. Where every
// message rings there is no need to look for some.
static int64_t nap_length(const m4g_engine *e, const m4g_patience *p, int64_t idle) {
  if (idle < p->hot_for_ns) return p->hot_ns;
  if (e->bells != NULL && atomic_load(&e->seat->asleep) == M4G_LISTENS && atomic_load(&e->bells->present) == e->everybody)
    return p->deep_ns;
  return idle < p->warm_for_ns ? p->warm_ns : p->cold_ns;
}

int m4g_drive(m4g_engine *e, const m4g_patience *p, uint64_t *done) {
  // A poll that takes this long has moved data.
  // So many bells in a row may ring in vain; after that a nap is deaf to them.
  enum { SPINS = 8, WORK_NS = 20000, IN_VAIN = 2 };
  int64_t event = now_ns(); // when something last completed
  uint64_t completed = e->completed;
  int spin = 1, deaf = 0;
  *done = 0;
  for (;;) {
    if (atomic_load(&e->stop) || !take(e)) return M4G_IDLE_DRIVER;
    int64_t before = now_ns();
    for (;;) {
      *done = m4g_poll(e, NULL, 0, 0, SPINS, M4G_POLL_DRIVER);
      if (*done != 0 || atomic_load(&e->outstanding) == 0) return M4G_LEADING_DRIVER;
      int64_t now = now_ns();
      if (e->completed != completed || (e->large > 0 && now - before > WORK_NS)) {
        completed = e->completed;
        event = now;
      }
      before = now;
      // A transfer moves only while it is polled: do not nap as soon.
      int64_t patience = e->large > 0 ? p->hot_for_ns : spin ? p->spin_ns : 0;
      if (atomic_load(&e->preempt) || now - event >= patience) break;
      if (now - event >= p->spin_ns) {
        sched_yield();
        before = now_ns();
      }
    }
    spin = 0;
    uint32_t bell = atomic_load(&e->own.bell);
    if (!deaf) { // a message either rings from here on, or is seen by one more poll
      bell = m4g_listen(e, now_ns() - event < p->hot_for_ns);
      if (e->bells != NULL) *done = m4g_poll(e, NULL, 0, 0, SPINS, M4G_POLL_DRIVER);
      if (*done != 0 || atomic_load(&e->outstanding) == 0) {
        atomic_store(&e->seat->asleep, 0);
        return M4G_LEADING_DRIVER;
      }
    }
    int64_t nap = nap_length(e, p, now_ns() - event);
    if (deaf && nap < p->warm_ns) nap = p->warm_ns;
    uint64_t epoch = atomic_load(&e->epoch);
    atomic_store(&e->lead, M4G_FREE_LEAD);
    if (atomic_load(&e->stack) != 0 || atomic_load(&e->preempt)) atomic_store(&e->seat->asleep, 0);
    if (atomic_load(&e->stack) != 0) continue; // somebody found the lead taken just now
    if (atomic_load(&e->preempt)) {
      for (int i = 0; i < 100 && atomic_load(&e->preempt); i++) sched_yield();
      if (!atomic_exchange(&e->preempt, 0)) return M4G_IDLE_DRIVER; // somebody else polls now
      continue;
    }
    int rung = m4g_nap(e, nap, bell, deaf ? M4G_DEAF : 0);
    deaf = 0;
    if (rung) { // what a bell announces may need more than a poll
      e->in_vain = e->completed == e->completed_then ? e->in_vain + 1 : 0;
      e->completed_then = e->completed;
      event = now_ns();
      deaf = e->in_vain >= IN_VAIN;
      spin = !deaf && e->yield == 0; // with more ranks than cores it would keep others from theirs
      continue;
    }
    if (atomic_load(&e->epoch) != epoch) return M4G_IDLE_DRIVER;
  }
}

void m4g_restack(int signal) {
  struct sigaction action;
  if (sigaction(signal, NULL, &action) != 0) return;
  if (action.sa_handler == SIG_DFL || action.sa_handler == SIG_IGN || action.sa_flags & SA_ONSTACK) return;
  action.sa_flags |= SA_ONSTACK;
  sigaction(signal, &action, NULL);
}
