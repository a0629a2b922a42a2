/* stoker client: the trainer's side of a Stoker stream. C11, needs libc only.
 *
 * Ownership: every stoker_X* made here is given back to the matching stoker_X_close/release.
 *   A tensor borrows its batch; a batch borrows its slot and gives it back when released.
 * Thread-safety: one thread at a time in stoker_next on a stream; stoker_batch_retain and
 *   stoker_batch_release from any thread.
 * Blocking: stoker_attach and stoker_next, up to their timeouts. Nothing else waits.
 * Fork: in a child of fork every call on an inherited stream answers
 *   STOKER_FAILED_PRECONDITION and releases nothing; the memory stays readable. Attach anew.
 * Times are nanoseconds; a negative timeout waits for ever.
 */
#ifndef STOKER_STOKER_H_
#define STOKER_STOKER_H_

#include <stddef.h>
#include <stdint.h>

#define STOKER_API __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

/* The numbers are gRPC's canonical codes. */
typedef enum stoker_code {
  STOKER_OK = 0,
  STOKER_INVALID_ARGUMENT = 3,    /* fix the call, the spec or the data */
  STOKER_DEADLINE_EXCEEDED = 4,   /* nothing yet: call again */
  STOKER_NOT_FOUND = 5,           /* no such stream */
  STOKER_PERMISSION_DENIED = 7,   /* the daemon does not serve this user */
  STOKER_RESOURCE_EXHAUSTED = 8,  /* a limit; stoker_last_error names it */
  STOKER_FAILED_PRECONDITION = 9, /* wrong use, such as after fork, or a rank that is taken */
  STOKER_OUT_OF_RANGE = 11,       /* the epoch has ended: not a fault */
  STOKER_INTERNAL = 13,           /* a bug of Stoker */
  STOKER_UNAVAILABLE = 14,        /* the daemon is gone: attach again with stoker_stream_token */
  STOKER_DATA_LOSS = 15           /* bytes are damaged; stoker_last_error says where */
} stoker_code;

/* Where a stream begins that brings no token. */
typedef enum stoker_start {
  STOKER_START_DEFAULT = 0, /* epoch 0, row 0; beside live consumers: where the rank left off */
  STOKER_START_BEGIN = 1,   /* epoch 0, row 0; refused beside live consumers */
  STOKER_START_CONTINUE = 2 /* where the rank's last holder left off */
} stoker_start;

typedef enum stoker_flags {
  STOKER_JOIN_NEXT_EPOCH = 1 /* BROADCAST: begin with the next epoch */
} stoker_flags;

typedef struct stoker_stream stoker_stream;
typedef struct stoker_batch stoker_batch;

#define STOKER_TOKEN_MAX 256

typedef struct stoker_attach_options {
  uint32_t struct_bytes;     /* sizeof(stoker_attach_options): lets the struct grow */
  uint32_t rank;             /* 0 to world_size - 1 */
  uint32_t world_size;       /* 0 means 1 */
  uint32_t local_world_size; /* ranks on this host; 0 means world_size */
  uint32_t flags;            /* stoker_flags */
  stoker_start start;
  const char* socket_path; /* NULL: $STOKER_RUNTIME_DIR/attach.sock, else /run/stoker,
                              $XDG_RUNTIME_DIR/stoker or /tmp/stoker-UID, the first that is there */
  const char* stream_name; /* NULL where spec_text names it */
  const char* spec_text;   /* NULL, or a StreamSpec as text; passed on unread */
  const char* token;       /* NULL, or where to begin */
  int64_t timeout_ns;      /* of the attach: indexing a new dataset takes as long as reading it;
                              0 means 600 s */
  int64_t reconnect_timeout_ns; /* how long stoker_next waits for a daemon that went away; 0 means
                                   120 s, negative means not at all (STOKER_UNAVAILABLE) */
} stoker_attach_options;

typedef struct stoker_stream_info {
  uint32_t struct_bytes;
  uint32_t rank;
  uint32_t world_size;
  uint32_t slots;     /* batches that can be held at once */
  uint32_t exclusive; /* 1: tensors of a held batch may be written */
  uint32_t ended;     /* 1: the last epoch has ended; every further stoker_next says so */
  uint64_t steps_per_epoch;
  uint64_t rows_per_epoch;
  uint64_t repeat; /* epochs; 0: for ever */
  uint64_t seed;
  uint64_t plan_id; /* equal on all ranks and hosts that read the same plan */
  uint64_t epoch;   /* position after the last batch taken */
  uint64_t row;
  uint64_t waited_ns; /* in stoker_next, since the attach */
  uint64_t batches;   /* taken since the attach */
  uint64_t reconnects;
  const char* name; /* lives as long as the stream */
  uint64_t rows;    /* real rows of the batches taken since the attach */
  uint64_t ready;   /* delivered and not yet taken: 0 where the trainer is faster than the daemon */
} stoker_stream_info;

typedef struct stoker_batch_info {
  uint32_t struct_bytes;
  uint32_t rows;          /* first side of dense tensors */
  uint32_t real_rows;     /* of them neither filler nor masked */
  uint32_t capacity_rows; /* of a full batch */
  uint32_t skipped_rows;  /* left out because they were bad */
  uint32_t tensors;
  uint64_t epoch;
  uint64_t step;      /* the batch's number in its epoch */
  uint64_t first_row; /* global row of its first row */
  uint64_t slot_bytes;
  uint64_t published_ns; /* CLOCK_MONOTONIC when the daemon handed it over */
} stoker_batch_info;

typedef enum stoker_role {
  STOKER_ROLE_DENSE = 0,
  STOKER_ROLE_VALUES = 1,      /* all rows' values; see the row or byte splits whose parent it is */
  STOKER_ROLE_ROW_SPLITS = 2,  /* int64, rows + 1 */
  STOKER_ROLE_BYTE_SPLITS = 3, /* int64, strings + 1 */
  STOKER_ROLE_LENGTHS = 4,     /* int64, rows */
  STOKER_ROLE_VALID = 5,       /* bool, rows */
  STOKER_ROLE_ROW_IDS = 6      /* int64, rows: shard << 40 | record; -1 where not valid */
} stoker_role;

typedef struct stoker_tensor {
  const char* name; /* not terminated: name_bytes long; lives as long as the batch */
  uint64_t name_bytes;
  void* data;           /* aligned to 256 bytes */
  const int64_t* shape; /* ndim sides, C order, no strides */
  uint64_t byte_size;
  uint8_t dtype_code; /* DLPack's numbers */
  uint8_t dtype_bits;
  uint8_t ndim;
  uint8_t writable;    /* 0: a store to `data` is a fault */
  int32_t device_type; /* DLPack's numbers: 1 is the CPU */
  int32_t device_id;
  stoker_role role;
  uint32_t parent; /* the tensor that splits or lengths describe, else UINT32_MAX */
} stoker_tensor;

/* Attaches to a stream. On STOKER_OK stores a stream in `*out`, else leaves `*out` alone. */
STOKER_API stoker_code stoker_attach(const stoker_attach_options* options, stoker_stream** out);

/* Takes the next batch of this rank. Order is by position, without gaps.
 * STOKER_OUT_OF_RANGE: the epoch has ended; the next call goes on with the next one, or says so
 * again where it was the last (stoker_stream_info.ended).
 * STOKER_RESOURCE_EXHAUSTED: this client holds all slots; release one.
 * REQUIRES: `out` is not NULL. A batch taken is held until it is released. */
STOKER_API stoker_code stoker_next(stoker_stream* stream, int64_t timeout_ns, stoker_batch** out);

STOKER_API stoker_code stoker_batch_get_info(const stoker_batch* batch, stoker_batch_info* out);
STOKER_API stoker_code stoker_batch_tensor(const stoker_batch* batch, uint32_t index,
                                           stoker_tensor* out);
/* STOKER_NOT_FOUND where the batch has no tensor of that name. */
STOKER_API stoker_code stoker_batch_find(const stoker_batch* batch, const char* name,
                                         stoker_tensor* out);
STOKER_API void stoker_batch_retain(stoker_batch* batch);
STOKER_API void stoker_batch_release(stoker_batch* batch); /* NULL is allowed */

/* The position after the last batch taken, or after `batch`, as text with a terminating zero.
 * `capacity` of STOKER_TOKEN_MAX always suffices. */
STOKER_API stoker_code stoker_stream_token(stoker_stream* stream, char* buffer, size_t capacity);
STOKER_API stoker_code stoker_batch_token(const stoker_batch* batch, char* buffer, size_t capacity);

STOKER_API stoker_code stoker_stream_get_info(stoker_stream* stream, stoker_stream_info* out);

/* Text for the last code but STOKER_OK of this thread; never NULL. */
STOKER_API const char* stoker_last_error(void);

/* Batches still held stay valid; the stream's memory goes with the last of them. */
STOKER_API void stoker_stream_close(stoker_stream* stream); /* NULL is allowed */

#ifdef __cplusplus
}
#endif

#endif /* STOKER_STOKER_H_ */
