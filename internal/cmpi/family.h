// The shim over one family of MPI libraries. It is written once, with the
// standard's own names, and compiled once per family: family_*.c defines FAMILY
// and FAMILY_NAME, includes the family's ABI header, then this file.
#include "engine.h"

#include <dlfcn.h>
#include <limits.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

// ---- entry points ----

static struct {
#define ENTRY(ret, name, parameters) ret(*name) parameters;
#include "entries.h"
} mpi;

static struct {
#define PREDEFINED(name, type, symbol) type name##_;
  PREDEFINED_HANDLES(PREDEFINED)
#undef PREDEFINED
  char none; // a family may have no such handle
} predefined;

static const char *load(void *library) {
#define ENTRY(ret, name, parameters)                                                                                   \
  *(void **)&mpi.name = dlsym(library, "MPI_" #name);                                                                  \
  if (mpi.name == NULL) return "MPI_" #name;
#define OPTIONAL(ret, name, parameters) *(void **)&mpi.name = dlsym(library, "MPI_" #name);
#include "entries.h"
#define PREDEFINED(name, type, symbol)                                                                                 \
  *(void **)&predefined.name##_ = dlsym(library, #symbol);                                                             \
  if (predefined.name##_ == NULL) return #symbol;
  PREDEFINED_HANDLES(PREDEFINED)
#undef PREDEFINED
  (void)predefined;
  return NULL;
}

// ---- the Go side's numbering ----

static inline int to_rank(int r) {
  if (r >= 0) return r;
  return r == M4G_ANY_SOURCE ? MPI_ANY_SOURCE : MPI_PROC_NULL;
}
static inline int to_tag(int t) { return t >= 0 ? t : MPI_ANY_TAG; }
static inline int from_rank(int r) {
  if (r >= 0) return r;
  return r == MPI_PROC_NULL ? M4G_PROC_NULL : M4G_ANY_SOURCE;
}
static inline int from_tag(int t) { return t >= 0 ? t : M4G_ANY_TAG; }
static inline int to_level(int l) {
  static const int levels[] = {MPI_THREAD_SINGLE, MPI_THREAD_FUNNELED, MPI_THREAD_SERIALIZED, MPI_THREAD_MULTIPLE};
  return levels[l];
}
static inline int from_level(int l) {
  return (l >= MPI_THREAD_FUNNELED) + (l >= MPI_THREAD_SERIALIZED) + (l >= MPI_THREAD_MULTIPLE);
}
static inline MPI_Comm to_comm(uint64_t c) { return (MPI_Comm)(uintptr_t)c; }
static inline uint64_t from_comm(MPI_Comm c) { return (uint64_t)(uintptr_t)c; }
static inline MPI_Message to_message(uint64_t m) { return (MPI_Message)(uintptr_t)m; }
static inline uint64_t from_message(MPI_Message m) { return (uint64_t)(uintptr_t)m; }

static inline MPI_Request *requests(m4g_engine *e) { return e->requests; }

// ---- lists ----

static inline m4g_op *next(m4g_op *o) { return (m4g_op *)(uintptr_t)o->next; }
static inline m4g_op *link(m4g_op *o) { return (m4g_op *)(uintptr_t)o->link; }

static inline void append_done(m4g_list *l, m4g_op *o) {
  o->next = 0;
  if (l->last != NULL) l->last->next = (uint64_t)(uintptr_t)o;
  else l->first = o;
  l->last = o;
}

static void append_waiting(m4g_engine *e, m4g_op *o) {
  o->link = 0;
  if (e->waiting.last != NULL) e->waiting.last->link = (uint64_t)(uintptr_t)o;
  else e->waiting.first = o;
  e->waiting.last = o;
  e->nwaiting++;
}

static void remove_waiting(m4g_engine *e, m4g_op *o) {
  m4g_op *before = NULL;
  for (m4g_op *p = e->waiting.first; p != NULL; before = p, p = link(p)) {
    if (p != o) continue;
    if (before != NULL) before->link = o->link;
    else e->waiting.first = link(o);
    if (e->waiting.last == o) e->waiting.last = before;
    e->nwaiting--;
    return;
  }
}

// ---- completion ----

static MPI_Errhandler errors_return; // what init found to return errors

enum { LARGE = 32 * 1024 };

// weigh counts an operation that moves many bytes: see m4g_drive.
static inline void weigh(m4g_engine *e, m4g_op *o, int64_t bytes) {
  if (bytes <= LARGE || o->flags & M4G_IS_LARGE) return;
  o->flags |= M4G_IS_LARGE;
  e->large++;
}

// done hands a finished operation to the Go side.
static void done(m4g_engine *e, m4g_op *o) {
  if (o->state != M4G_TAKEN) o->state = M4G_DONE;
  e->completed++;
  atomic_store_explicit(&e->outstanding, e->outstanding - 1, memory_order_relaxed);
  if (o->flags & M4G_IS_LARGE) e->large--;
  if (o->head != 0) { // only a whole set is of interest
    o = (m4g_op *)(uintptr_t)o->head;
    if (--o->remaining > 0) return;
  }
  if (e->target != 0 && o->waiter == e->target) e->got++;
  else if (!(o->flags & M4G_DETACHED)) e->others++;
  append_done(&e->done, o);
}

static void fail(m4g_engine *e, m4g_op *o, int rc) {
  o->rc = rc;
  done(e, o);
}

static void set_status(m4g_op *o, const MPI_Status *status) {
  o->source = from_rank(status->MPI_SOURCE);
  o->recvtag = from_tag(status->MPI_TAG);
  o->count = status_bytes(status);
}

// complete takes the outcome of a posted operation from MPI.
static void complete(m4g_engine *e, m4g_op *o, int rc, const MPI_Status *status) {
  // A duplicate has the error handler of its origin, which may be somebody else's.
  if (o->kind == M4G_DUP && rc == MPI_SUCCESS) rc = mpi.Comm_set_errhandler(to_comm(o->handle), errors_return);
  o->rc = rc;
  if (o->kind == M4G_RECV || o->kind == M4G_IMRECV) {
    int64_t matched = o->count; // what MPI_Improbe said, or -1
    set_status(o, status);
    if (o->flags & M4G_CANCELLING) {
      int flag = 0;
      mpi.Test_cancelled(status, &flag);
      o->cancelled = flag != 0;
    }
    if (o->cancelled || o->peer == M4G_PROC_NULL) { // the rest of the status says nothing then
      o->count = 0;
      o->source = o->peer;
      o->recvtag = M4G_ANY_TAG;
    }
    if (o->count > o->len) o->truncated = 1; // the guard bytes were written
    if (o->truncated && matched > o->count) o->count = matched;
  }
  done(e, o);
}

// ---- posting ----

static void *buffer(m4g_op *o) { return o->flags & M4G_IN_SCRATCH ? (void *)o->scratch : (void *)(uintptr_t)o->addr; }

// large_type makes a datatype of n bytes, for counts that an int cannot hold.
// Whoever receives it with any datatype of as many bytes receives the same.
static int large_type(int64_t n, MPI_Datatype *type) {
  enum { BLOCK = 1 << 30 };
  MPI_Datatype block;
  int rc = mpi.Type_contiguous(BLOCK, MPI_BYTE, &block);
  if (rc != MPI_SUCCESS) return rc;
  int lengths[2] = {(int)(n / BLOCK), (int)(n % BLOCK)};
  MPI_Aint at[2] = {0, (MPI_Aint)(n - n % BLOCK)};
  MPI_Datatype types[2] = {block, MPI_BYTE};
  rc = mpi.Type_create_struct(2, lengths, at, types, type);
  mpi.Type_free(&block);
  if (rc != MPI_SUCCESS) return rc;
  rc = mpi.Type_commit(type);
  if (rc != MPI_SUCCESS) mpi.Type_free(type);
  return rc;
}

// parts_type describes memory that is not contiguous, from MPI_BOTTOM.
static int parts_type(const m4g_op *o, MPI_Datatype *type) {
  const m4g_parts *p = (const m4g_parts *)o->scratch;
  int rc = mpi.Type_create_hindexed(p->n, (const int *)(uintptr_t)p->lengths,
                                    (const MPI_Aint *)(uintptr_t)p->addresses, MPI_BYTE, type);
  if (rc != MPI_SUCCESS) return rc;
  rc = mpi.Type_commit(type);
  if (rc != MPI_SUCCESS) mpi.Type_free(type);
  return rc;
}

static int post_send(m4g_op *o, MPI_Request *r) {
  int dest = to_rank(o->peer), sync = o->kind == M4G_SSEND;
  MPI_Comm comm = to_comm(o->comm);
  if (o->flags & M4G_IN_PARTS) {
    MPI_Datatype type;
    int rc = parts_type(o, &type);
    if (rc != MPI_SUCCESS) return rc;
    rc = (sync ? mpi.Issend : mpi.Isend)(MPI_BOTTOM, 1, type, dest, o->tag, comm, r);
    mpi.Type_free(&type); // MPI keeps it until the operation is complete
    return rc;
  }
  if (o->len <= INT_MAX)
    return (sync ? mpi.Issend : mpi.Isend)(buffer(o), (int)o->len, MPI_BYTE, dest, o->tag, comm, r);
  if (mpi.Isend_c != NULL && mpi.Issend_c != NULL)
    return (sync ? mpi.Issend_c : mpi.Isend_c)(buffer(o), o->len, MPI_BYTE, dest, o->tag, comm, r);
  MPI_Datatype type;
  int rc = large_type(o->len, &type);
  if (rc != MPI_SUCCESS) return rc;
  rc = (sync ? mpi.Issend : mpi.Isend)(buffer(o), 1, type, dest, o->tag, comm, r);
  mpi.Type_free(&type); // MPI keeps it until the operation is complete
  return rc;
}

// guard_type describes the scratch of an operation as n bytes and two guard
// bytes that lie apart from them. The type is never contiguous, so MPI unpacks
// into it piece by piece and cannot write past it; a message longer than n
// shows as a count above n. The types are kept until MPI is finalised.
static struct {
  MPI_Datatype types[M4G_SCRATCH + 1];
  char made[M4G_SCRATCH + 1];
} guard;

static int guard_type(int n, MPI_Datatype *type) {
  if (!guard.made[n]) {
    int lengths[3] = {n, 1, 1};
    MPI_Aint at[3] = {0, M4G_SCRATCH + 1, M4G_SCRATCH + 3};
    MPI_Datatype bytes[3] = {MPI_BYTE, MPI_BYTE, MPI_BYTE};
    int rc = mpi.Type_create_struct(3, lengths, at, bytes, &guard.types[n]);
    if (rc == MPI_SUCCESS) rc = mpi.Type_commit(&guard.types[n]);
    if (rc != MPI_SUCCESS) return rc;
    guard.made[n] = 1;
  }
  *type = guard.types[n];
  return MPI_SUCCESS;
}

static int post_recv(m4g_engine *e, m4g_op *o, MPI_Request *r) {
  int source = to_rank(o->peer), tag = to_tag(o->tag);
  MPI_Comm comm = to_comm(o->comm);
  MPI_Datatype type;
  int rc;
  if (o->flags & M4G_IN_PARTS) {
    rc = parts_type(o, &type);
    if (rc != MPI_SUCCESS) return rc;
    rc = mpi.Irecv(MPI_BOTTOM, 1, type, source, tag, comm, r);
    mpi.Type_free(&type);
    return rc;
  }
  if (o->flags & M4G_IN_SCRATCH && e->quirks & M4G_QUIRK_SHORT_RECV_OVERFLOWS && !(o->flags & M4G_FITS)) {
    rc = guard_type((int)o->len, &type);
    return rc != MPI_SUCCESS ? rc : mpi.Irecv(o->scratch, 1, type, source, tag, comm, r);
  }
  if (o->len <= INT_MAX) return mpi.Irecv(buffer(o), (int)o->len, MPI_BYTE, source, tag, comm, r);
  if (mpi.Irecv_c != NULL) return mpi.Irecv_c(buffer(o), o->len, MPI_BYTE, source, tag, comm, r);
  rc = large_type(o->len, &type);
  if (rc != MPI_SUCCESS) return rc;
  rc = mpi.Irecv(buffer(o), 1, type, source, tag, comm, r);
  mpi.Type_free(&type);
  return rc;
}

// post_imrecv receives a matched message of o->count bytes. What does not fit
// is dropped: a guard type takes the first o->len bytes and lets MPI discard
// the rest.
static int post_imrecv(m4g_op *o, MPI_Request *r) {
  MPI_Message message = to_message(o->handle);
  MPI_Datatype type;
  int rc;
  if (o->count > o->len) {
    o->truncated = 1;
    if (o->len == 0 || o->flags & M4G_ON_DEVICE) { // any two guard bytes do
      rc = guard_type(0, &type);
      return rc != MPI_SUCCESS ? rc : mpi.Imrecv(o->scratch, 1, type, &message, r);
    }
    MPI_Datatype head = MPI_BYTE;
    int lengths[2] = {(int)o->len, 1};
    if (o->len > INT_MAX) {
      rc = large_type(o->len, &head);
      if (rc != MPI_SUCCESS) return rc;
      lengths[0] = 1;
    }
    MPI_Aint at[2] = {0, (MPI_Aint)((char *)&o->scratch[M4G_SCRATCH + 1] - (char *)buffer(o))};
    MPI_Datatype types[2] = {head, MPI_BYTE};
    rc = mpi.Type_create_struct(2, lengths, at, types, &type);
    if (head != MPI_BYTE) mpi.Type_free(&head);
    if (rc == MPI_SUCCESS) rc = mpi.Type_commit(&type);
    if (rc != MPI_SUCCESS) return rc;
    rc = mpi.Imrecv(buffer(o), 1, type, &message, r);
    mpi.Type_free(&type);
    return rc;
  }
  if (o->count <= INT_MAX) return mpi.Imrecv(buffer(o), (int)o->count, MPI_BYTE, &message, r);
  if (mpi.Imrecv_c != NULL) return mpi.Imrecv_c(buffer(o), o->count, MPI_BYTE, &message, r);
  rc = large_type(o->count, &type);
  if (rc != MPI_SUCCESS) return rc;
  rc = mpi.Imrecv(buffer(o), 1, type, &message, r);
  mpi.Type_free(&type);
  return rc;
}

#include "collective.h"
#include "comm.h"

// room makes place for one more request at e->tail.
static int room(m4g_engine *e) {
  if (e->tail < e->cap) return 1;
  if (e->live <= e->cap / 2 && e->cap > 0) { // close the gaps, keeping the order
    int64_t n = 0;
    for (int64_t i = e->head; i < e->tail; i++) {
      if (e->posted[i] == NULL) continue;
      requests(e)[n] = requests(e)[i];
      e->posted[n++] = e->posted[i];
    }
    e->head = 0;
    e->tail = n;
    return 1;
  }
  int64_t cap = e->cap > 0 ? 2 * e->cap : 1024;
  void *r = realloc(e->requests, cap * sizeof(MPI_Request));
  if (r == NULL) return 0;
  e->requests = r;
  void *p = realloc(e->posted, cap * sizeof(m4g_op *));
  if (p == NULL) return 0;
  e->posted = p;
  e->cap = cap;
  return 1;
}

// track follows the request of a posted operation until MPI completes it.
static void track(m4g_engine *e, m4g_op *o, int rc, MPI_Request r) {
  if (rc != MPI_SUCCESS) {
    fail(e, o, rc);
    return;
  }
  o->state = M4G_POSTED;
  requests(e)[e->tail] = r;
  e->posted[e->tail++] = o;
  e->live++;
}

static void forget(m4g_engine *e, int64_t i) {
  e->posted[i] = NULL;
  requests(e)[i] = MPI_REQUEST_NULL;
  e->live--;
  while (e->head < e->tail && e->posted[e->head] == NULL) e->head++;
  // Gaps at the end would grow behind a receive that stays, and be tested with it.
  while (e->head < e->tail && e->posted[e->tail - 1] == NULL) e->tail--;
  if (e->live == 0) e->head = e->tail = 0;
}

// ---- matching ----
//
// A receive that cannot be posted (its length is to be discovered, or posting
// it would run into a quirk) waits in engine.waiting and is served by
// MPI_Improbe. Every later receive that could match the same message waits
// there behind it, so overlapping receives are served in call order.

static inline int matches(const m4g_op *o, uint64_t comm, int source, int tag) {
  return o->comm == comm && (o->peer == source || (o->peer == M4G_ANY_SOURCE && source >= 0)) &&
         (o->tag == M4G_ANY_TAG || o->tag == tag);
}

static inline int overlap(const m4g_op *a, const m4g_op *b) {
  return a->comm == b->comm && (a->peer == b->peer || a->peer == M4G_ANY_SOURCE || b->peer == M4G_ANY_SOURCE) &&
         (a->tag == b->tag || a->tag == M4G_ANY_TAG || b->tag == M4G_ANY_TAG);
}

// taker is the earliest waiting receive that the message belongs to, or NULL.
static m4g_op *taker(m4g_engine *e, uint64_t comm, int source, int tag) {
  for (m4g_op *o = e->waiting.first; o != NULL; o = link(o))
    if (o->state == M4G_WAITING && o->kind != M4G_PROBE && matches(o, comm, source, tag)) return o;
  return NULL;
}

// behind tells whether an operation has to wait for one that came before it;
// with taken_only, for a message that is matched but neither received nor
// given back yet.
static int behind(m4g_engine *e, const m4g_op *o, int taken_only) {
  for (m4g_op *w = e->waiting.first; w != NULL && w != o; w = link(w))
    if (w->kind != M4G_PROBE && (!taken_only || w->state == M4G_TAKEN) && overlap(w, o)) return 1;
  return 0;
}

// give hands a matched message to an operation that is not in engine.waiting,
// or is there and WAITING.
static void give(m4g_engine *e, m4g_op *o, uint64_t message, int source, int tag, int64_t count) {
  int reserve = o->kind == M4G_MPROBE && o->flags & M4G_RESERVED;
  if (o->state == M4G_WAITING && !reserve) remove_waiting(e, o);
  o->handle = message;
  o->source = source;
  o->recvtag = tag;
  o->count = count;
  o->found = 1;
  if (o->kind == M4G_RECV) {
    MPI_Request r = MPI_REQUEST_NULL;
    o->kind = M4G_IMRECV;
    o->state = M4G_IDLE;
    weigh(e, o, count); // all of it has to come, however short the buffer
    if (!room(e)) fail(e, o, MPI_ERR_NO_MEM);
    else {
      int rc = post_imrecv(o, &r);
      track(e, o, rc, r);
    }
    return;
  }
  if (reserve) {
    if (o->state != M4G_WAITING) append_waiting(e, o);
    o->state = M4G_TAKEN;
    e->ntaken++;
  }
  done(e, o);
}

// take_held gives the oldest matching message that was given back, if any.
static int take_held(m4g_engine *e, m4g_op *o) {
  for (m4g_held **p = &e->held; *p != NULL; p = &(*p)->next) {
    m4g_held *h = *p;
    if (!matches(o, h->comm, h->source, h->tag)) continue;
    if (o->kind == M4G_PROBE || o->kind == M4G_IPROBE) {
      o->source = h->source;
      o->recvtag = h->tag;
      o->count = h->count;
      o->found = 1;
      done(e, o);
      return 1;
    }
    *p = h->next;
    give(e, o, h->message, h->source, h->tag, h->count);
    free(h);
    return 1;
  }
  return 0;
}

// look asks MPI for a message that o could take and gives it to whom it
// belongs. It returns 1 when o is done or posted.
static int look(m4g_engine *e, m4g_op *o) {
  for (;;) {
    int flag = 0;
    MPI_Status status;
    int probe = o->kind == M4G_PROBE || o->kind == M4G_IPROBE;
    MPI_Message message = MPI_MESSAGE_NULL;
    int rc = probe ? mpi.Iprobe(to_rank(o->peer), to_tag(o->tag), to_comm(o->comm), &flag, &status)
                   : mpi.Improbe(to_rank(o->peer), to_tag(o->tag), to_comm(o->comm), &flag, &message, &status);
    if (rc != MPI_SUCCESS) {
      if (o->state == M4G_WAITING) remove_waiting(e, o);
      fail(e, o, rc);
      return 1;
    }
    if (!flag) return 0;
    int source = from_rank(status.MPI_SOURCE), tag = from_tag(status.MPI_TAG);
    int64_t count = status_bytes(&status);
    m4g_op *t = taker(e, o->comm, source, tag);
    if (!probe) {
      m4g_op *to = t != NULL ? t : o;
      give(e, to, from_message(message), source, tag, count);
      if (to == o) return 1;
      continue;
    }
    if (t != NULL && t != o) {
      if (!look(e, t)) return 0;
      continue;
    }
    if (o->state == M4G_WAITING) remove_waiting(e, o);
    o->source = source;
    o->recvtag = tag;
    o->count = count;
    o->found = 1;
    done(e, o);
    return 1;
  }
}

// serve passes over the waiting receives, a part of a long list at a time.
static void serve(m4g_engine *e) {
  enum { PASS = 64 };
  if (e->rotate >= e->nwaiting) e->rotate = 0;
  int64_t skip = e->nwaiting <= PASS ? 0 : e->rotate, looked = 0;
  m4g_op *o = e->waiting.first;
  const m4g_op *in_vain = NULL; // the last one that MPI had no message for
  for (int64_t i = 0; o != NULL && looked < PASS; i++) {
    m4g_op *after = link(o);
    if (i >= skip) {
      looked++;
      int again = in_vain != NULL && o->comm == in_vain->comm && o->peer == in_vain->peer && o->tag == in_vain->tag;
      if (o->state == M4G_WAITING && !again && !(e->ntaken > 0 && behind(e, o, 1))) {
        int64_t n = e->nwaiting;
        in_vain = look(e, o) ? NULL : o;
        if (e->nwaiting < n && after != NULL && after->state != M4G_WAITING && after->state != M4G_TAKEN)
          break; // the list changed under us: the rest is for the next pass
      }
    }
    o = after;
  }
  e->rotate = skip + looked;
}

// ---- starting ----

static void start_recv(m4g_engine *e, m4g_op *o) {
  o->count = -1;
  if (e->held != NULL && take_held(e, o)) return;
  int nobody = o->peer == M4G_PROC_NULL; // MPI completes it at once
  int discover = o->kind != M4G_RECV ||
                 (e->quirks & M4G_QUIRK_SHORT_RECV_OVERFLOWS && !(o->flags & (M4G_IN_SCRATCH | M4G_FITS)) && !nobody);
  int wait = e->nwaiting > 0 && !nobody && behind(e, o, 0);
  if (!discover && !wait) {
    MPI_Request r = MPI_REQUEST_NULL;
    if (!room(e)) fail(e, o, MPI_ERR_NO_MEM);
    else {
      int rc = post_recv(e, o, &r);
      track(e, o, rc, r);
    }
    return;
  }
  if (!wait && look(e, o)) return;
  o->state = M4G_WAITING;
  append_waiting(e, o);
}

static void start_unmatch(m4g_engine *e, m4g_op *o) {
  m4g_op *t = taker(e, o->comm, o->source, o->recvtag);
  if (t != NULL) {
    give(e, t, o->handle, o->source, o->recvtag, o->count);
    done(e, o);
    return;
  }
  m4g_held *h = malloc(sizeof *h), **p = &e->held;
  if (h == NULL) {
    fail(e, o, MPI_ERR_NO_MEM);
    return;
  }
  *h = (m4g_held){.comm = o->comm, .message = o->handle, .count = o->count, .source = o->source, .tag = o->recvtag};
  while (*p != NULL) p = &(*p)->next;
  *p = h;
  done(e, o);
}

static void start_cancel(m4g_engine *e, m4g_op *o) {
  m4g_op *t = (m4g_op *)(uintptr_t)o->addr;
  if (t->serial == (uint32_t)o->handle) {
    if (t->state == M4G_WAITING) {
      remove_waiting(e, t);
      t->cancelled = 1;
      done(e, t);
    } else if (t->state == M4G_POSTED && t->kind == M4G_RECV && !(t->flags & M4G_CANCELLING)) {
      // Once: Open MPI crashes on the second MPI_Cancel of a request.
      for (int64_t i = e->head; i < e->tail; i++) {
        if (e->posted[i] != t) continue;
        t->flags |= M4G_CANCELLING;
        mpi.Cancel(&requests(e)[i]);
        break;
      }
    }
  }
  done(e, o);
}

// call rings for the peer of an operation that was just posted, if that sleeps.
static inline void call(const m4g_op *o, uint32_t least) {
  const m4g_peers *p = (const m4g_peers *)(uintptr_t)o->peers;
  if (p == NULL || o->peer < 0) return;
  if (p->by_rank != NULL) m4g_rouse(p->by_rank[o->peer], least);
  else m4g_rouse_all(p, least);
}

// call_all rings for every rank of a communicator that is on this host and
// sleeps: who waits for whom in a collective operation only MPI knows. Those who
// doze are taking part as a rule, and so many bells would cost more than they bring.
static void call_all(const m4g_op *o) {
  const m4g_peers *p = (const m4g_peers *)(uintptr_t)o->peers;
  if (p != NULL) m4g_rouse_all(p, M4G_LISTENS);
}

// start begins an operation: it posts it, or puts it in engine.waiting, or
// completes it at once.
static void start(m4g_engine *e, m4g_op *o) {
  MPI_Request r = MPI_REQUEST_NULL;
  int rc = MPI_SUCCESS;
  e->started++;
  atomic_store_explicit(&e->outstanding, e->outstanding + 1, memory_order_relaxed);
  weigh(e, o, o->len);
  if (o->state == M4G_TAKEN) {
    remove_waiting(e, o);
    e->ntaken--;
    o->state = M4G_IDLE;
  }
  switch (o->kind) {
  case M4G_SEND:
    rc = post_send(o, &r);
    call(o, M4G_DOZES);
    if (rc == MPI_SUCCESS && o->flags & M4G_IN_SCRATCH && o->head == 0) { // most of them are complete already
      int flag = 0;
      rc = mpi.Test(&r, &flag, MPI_STATUS_IGNORE);
      if (rc == MPI_SUCCESS && flag) {
        done(e, o);
        return;
      }
    }
    break;
  case M4G_SSEND:
    rc = post_send(o, &r);
    call(o, M4G_DOZES);
    break;
  case M4G_RECV:
    start_recv(e, o);
    call(o, M4G_SENDS);
    return;
  case M4G_MPROBE:
  case M4G_PROBE: start_recv(e, o); return;
  case M4G_IMRECV:
    weigh(e, o, o->count);
    rc = post_imrecv(o, &r);
    call(o, M4G_SENDS);
    break;
  case M4G_IMPROBE:
  case M4G_IPROBE:
    if (e->nwaiting > 0) serve(e);
    if (e->held != NULL && take_held(e, o)) return;
    if (!(e->ntaken > 0 && behind(e, o, 1)) && look(e, o)) return;
    done(e, o);
    return;
  case M4G_UNMATCH: start_unmatch(e, o); return;
  case M4G_CANCEL: start_cancel(e, o); return;
  case M4G_DUP: {
    // The new handle is written when the request completes.
    o->handle = 0;
    rc = mpi.Comm_idup(to_comm(o->comm), (MPI_Comm *)&o->handle, &r);
    call_all(o);
    break;
  }
  case M4G_BARRIER:
    rc = mpi.Ibarrier(to_comm(o->comm), &r);
    call_all(o);
    break;
  default:
    rc = post_collective(o, &r);
    call_all(o);
    break;
  }
  if (rc == MPI_SUCCESS && !room(e)) rc = MPI_ERR_NO_MEM;
  track(e, o, rc, r);
}

// drain starts what was submitted since the last time, in call order.
static void drain(m4g_engine *e) {
  if (atomic_load_explicit(&e->stack, memory_order_relaxed) == 0) return;
  m4g_op *o = (m4g_op *)(uintptr_t)atomic_exchange_explicit(&e->stack, 0, memory_order_acquire), *first = NULL;
  while (o != NULL) { // the stack is last in, first out
    m4g_op *after = next(o);
    o->next = (uint64_t)(uintptr_t)first;
    first = o;
    o = after;
  }
  while (first != NULL) {
    m4g_op *after = next(first);
    start(e, first);
    first = after;
  }
}

// ---- polling ----

enum { WINDOW = 64 };

static void test_window(m4g_engine *e, int64_t from, int64_t n) {
  int indices[WINDOW], count = 0;
  MPI_Status statuses[WINDOW];
  int rc = mpi.Testsome((int)n, requests(e) + from, &count, indices, statuses);
  if (rc != MPI_SUCCESS && rc != MPI_ERR_IN_STATUS) {
    int class = 0;
    mpi.Error_class(rc, &class);
    if (class != MPI_ERR_IN_STATUS) { // the call itself failed: nothing more will come of these
      for (int64_t i = from; i < from + n; i++) {
        m4g_op *o = e->posted[i];
        if (o == NULL) continue;
        forget(e, i);
        fail(e, o, rc);
      }
      return;
    }
  }
  if (count == MPI_UNDEFINED) return;
  for (int i = 0; i < count; i++) {
    int64_t at = from + indices[i];
    m4g_op *o = e->posted[at];
    forget(e, at);
    complete(e, o, rc == MPI_SUCCESS ? MPI_SUCCESS : statuses[i].MPI_ERROR, &statuses[i]);
  }
}

// test_set completes the set whose requests are the oldest, if all of them are
// complete: one call instead of one for each. It returns whether it did so for any.
static int test_set(m4g_engine *e, int64_t n) {
  MPI_Status statuses[WINDOW];
  int64_t at = e->head;
  int flag = 0;
  // The last completes last as a rule: look at it alone for as long as it does not.
  int rc = mpi.Request_get_status(requests(e)[at + n - 1], &flag, statuses);
  if (rc == MPI_SUCCESS && !flag) return 0;
  rc = mpi.Testall((int)n, requests(e) + at, &flag, statuses);
  if (rc == MPI_SUCCESS && !flag) return 0;
  int any = 0;
  for (int64_t i = at; i < at + n; i++) {
    m4g_op *o = e->posted[i];
    // If one has failed each has its own error, and some may not be complete.
    int own = rc == MPI_SUCCESS ? MPI_SUCCESS : statuses[i - at].MPI_ERROR;
    if (o == NULL || own == MPI_ERR_PENDING) continue;
    forget(e, i);
    complete(e, o, own, &statuses[i - at]);
    any = 1;
  }
  return any;
}

// leading_set is the number of the oldest requests that are what is left of a
// set, if that is where they are, or 0.
static int64_t leading_set(m4g_engine *e) {
  m4g_op *o = e->posted[e->head];
  if (o->head != (uint64_t)(uintptr_t)o || o->remaining > WINDOW) return 0;
  int64_t n = o->remaining, last = e->head + n - 1;
  if (last >= e->tail || e->posted[last] == NULL || e->posted[last]->head != o->head) return 0;
  return n;
}

// test_at looks at one request and returns whether it is complete.
static int test_at(m4g_engine *e, int64_t at) {
  int flag = 0;
  MPI_Status status;
  int rc = mpi.Test(&requests(e)[at], &flag, &status);
  if (rc == MPI_SUCCESS && !flag) return 0;
  m4g_op *o = e->posted[at];
  forget(e, at);
  complete(e, o, rc, &status);
  return 1;
}

// test looks at the posted requests once, which also makes MPI progress. The
// oldest complete first as a rule, so they are tested one by one for as long as
// they do; or, behind the few that stay, the youngest. With wide, a window of the others
// is tested too, in turn.
static void test(m4g_engine *e, int wide) {
  while (e->live > 0) {
    int64_t set = leading_set(e);
    if (set > 1) {
      if (test_set(e, set)) continue;
      if (e->live == set) return;
      break;
    }
    if (!test_at(e, e->head)) break;
  }
  enum { FEW = 4 };
  if (e->live <= 1) return;
  if (!wide) {
    if (e->live <= FEW) test_at(e, e->tail - 1);
    return;
  }
  if (e->chunk <= e->head || e->chunk >= e->tail) e->chunk = e->head + 1;
  int64_t at = e->chunk, n = e->tail - at < WINDOW ? e->tail - at : WINDOW;
  e->chunk += WINDOW;
  test_window(e, at, n);
}

// poll starts what was submitted and then chain, and polls until want
// operations of target are complete, or anything that somebody else waits for,
// or spins passes are over. It returns the operations that are done.
static uint64_t poll(m4g_engine *e, m4g_op *chain, uint32_t target, uint32_t want, uint32_t spins, uint32_t flags) {
  uint64_t before = m4g_enter();
  e->target = target;
  e->got = 0;
  e->others = 0;
  drain(e);
  while (chain != NULL) {
    m4g_op *after = next(chain);
    start(e, chain);
    chain = after;
  }
  for (uint32_t i = 0; i < spins; i++) {
    if ((want != 0 && e->got >= want) || e->others > 0) break;
    if (e->nwaiting > 0) serve(e);
    test(e, e->passes++ % 4 == 0);
    drain(e);
    if (flags & M4G_POLL_DRIVER && atomic_load_explicit(&e->preempt, memory_order_relaxed)) break;
    if (e->yield != 0 && i % e->yield == e->yield - 1) sched_yield();
  }
  m4g_leave(before);
  if (spins > 1) atomic_store_explicit(&e->epoch, e->epoch + 1, memory_order_relaxed);
  if (e->calls++ % 16 == 0) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    e->coarse_ms = now.tv_sec * 1000 + now.tv_nsec / 1000000;
  }
  uint64_t first = (uint64_t)(uintptr_t)e->done.first;
  e->done = (m4g_list){NULL, NULL};
  return first;
}

// ---- the rest ----

static int initialized(void) {
  int flag = 0;
  return mpi.Initialized(&flag) == MPI_SUCCESS && flag;
}

static int finalized(void) {
  int flag = 0;
  return mpi.Finalized(&flag) == MPI_SUCCESS && flag;
}

// An MPI of somebody else begins MPI_Finalize by deleting the attributes of
// MPI_COMM_SELF (MPI-4.1 11.2.4): by one of them we hear of it.
static int finalize_key;

static int not_copied(MPI_Comm comm, int key, void *extra, void *value, void *copy, int *flag) {
  (void)comm, (void)key, (void)extra, (void)value, (void)copy;
  *flag = 0;
  return MPI_SUCCESS;
}

static int deleted(MPI_Comm comm, int key, void *value, void *extra) {
  (void)comm, (void)key, (void)value, (void)extra;
  m4gFinalizing();
  return MPI_SUCCESS;
}

static int init_thread(int required) {
  int provided;
  return mpi.Init_thread(NULL, NULL, to_level(required), &provided);
}

static int query_thread(int *provided) {
  int rc = mpi.Query_thread(provided);
  *provided = from_level(*provided);
  return rc;
}

static void return_error(MPI_Comm *comm, int *code, ...) {
  (void)comm;
  (void)code;
}

static void init(m4g_start *s, int ours) {
#define TRY(call)                                                                                                      \
  if ((s->rc = mpi.call) != MPI_SUCCESS) {                                                                             \
    s->failed = "MPI_" #call;                                                                                          \
    return;                                                                                                            \
  }
  int flag = 0, *tag_ub = NULL;
  MPI_Comm private, local;
  TRY(Query_thread(&s->provided));
  errors_return = MPI_ERRORS_RETURN;
  if (s->quirks & M4G_QUIRK_ERRORS_RETURN_ABORTS) TRY(Comm_create_errhandler(return_error, &errors_return));
  if (ours) {
    TRY(Comm_set_errhandler(MPI_COMM_WORLD, errors_return));
    TRY(Comm_set_errhandler(MPI_COMM_SELF, errors_return));
  } else {
    TRY(Comm_create_keyval(not_copied, deleted, &finalize_key, NULL));
    TRY(Comm_set_attr(MPI_COMM_SELF, finalize_key, NULL));
  }
  s->provided = from_level(s->provided);
  s->world = from_comm(MPI_COMM_WORLD);
  TRY(Comm_rank(MPI_COMM_WORLD, &s->rank));
  TRY(Comm_size(MPI_COMM_WORLD, &s->size));
  TRY(Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &tag_ub, &flag)); // the attribute is a pointer to the limit
  s->tag_ub = flag ? *tag_ub : 32767;
  TRY(Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, s->rank, MPI_INFO_NULL, &local));
  TRY(Comm_rank(local, &s->local_rank));
  TRY(Comm_size(local, &s->local_size));
  TRY(Comm_free(&local));
  TRY(Comm_dup(MPI_COMM_WORLD, &private));
  TRY(Comm_set_errhandler(private, errors_return));
  s->private_comm = from_comm(private);
#undef TRY
}

static int agree(uint64_t comm, const char *mine, char *all, int width) {
  return mpi.Allgather(mine, width, MPI_BYTE, all, width, MPI_BYTE, to_comm(comm));
}

static int error_class(int code) {
  int class = MPI_ERR_UNKNOWN;
  if (code == MPI_SUCCESS) return M4G_SUCCESS;
  mpi.Error_class(code, &class);
#define CLASS(name)                                                                                                    \
  if (class == MPI_ERR_##name) return M4G_ERR_##name;
  M4G_ERROR_CLASSES(CLASS)
#undef CLASS
  return M4G_ERR_OTHER;
}

static void error_string(int code, char *text, int size) {
  char full[MPI_MAX_ERROR_STRING + 1024] = "";
  int n = 0;
  if (mpi.Error_string(code, full, &n) != MPI_SUCCESS) strcpy(full, "no description");
  strncpy(text, full, size - 1);
  text[size - 1] = 0;
}

static void version(char *text, int size, int *major, int *minor) {
  char full[MPI_MAX_LIBRARY_VERSION_STRING + 1] = "";
  int n = 0;
  mpi.Get_version(major, minor);
  mpi.Get_library_version(full, &n);
  strncpy(text, full, size - 1);
  text[size - 1] = 0;
}

static void free_guard_types(void) {
  for (int n = 0; n <= M4G_SCRATCH; n++) {
    if (guard.made[n]) mpi.Type_free(&guard.types[n]);
    guard.made[n] = 0;
  }
}

static int detach(uint64_t private_comm) {
  MPI_Comm private = to_comm(private_comm);
  free_guard_types();
  int rc = mpi.Comm_delete_attr(MPI_COMM_SELF, finalize_key);
  if (rc == MPI_SUCCESS) rc = mpi.Comm_free_keyval(&finalize_key);
  if (rc == MPI_SUCCESS) rc = mpi.Comm_free(&private);
  return rc;
}

static int finalize(void) {
  free_guard_types();
  return mpi.Finalize();
}
static int abort_job(uint64_t comm, int code) { return mpi.Abort(to_comm(comm), code); }

#include "bench.h"

static const m4g_constant constants[] = {
#define C(name) {#name, (int64_t)(name)},
#define S(type) {"sizeof(" #type ")", sizeof(type)},
#define O(field) {"offsetof(MPI_Status, " #field ")", offsetof(MPI_Status, field)},
    FAMILY_CONSTANTS(C, S, O)
#undef C
#undef S
#undef O
    {NULL, 0},
};

const m4g_family FAMILY = {
    .name = FAMILY_NAME,
    .constants = constants,
    .load = load,
    .init_thread = init_thread,
    .query_thread = query_thread,
    .init = init,
    .detach = detach,
    .agree = agree,
    .poll = poll,
    .split = split,
    .from_fortran = from_fortran,
    .to_fortran = to_fortran,
    .comm_free = comm_free,
    .set_name = set_name,
    .get_name = get_name,
    .wide = wide,
    .finalize = finalize,
    .abort = abort_job,
    .error_class = error_class,
    .error_string = error_string,
    .version = version,
    .initialized = initialized,
    .finalized = finalized,
    .bench = bench,
};
