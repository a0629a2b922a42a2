// Batches: what a trainer reads, and how it gives them back.
#include <cstdlib>
#include <cstring>

#include "client/src/error.h"
#include "client/src/stream.h"

namespace {

using stoker::client::Fail;

void Fill(const stoker_batch* batch, std::uint32_t index, stoker_tensor* out) {
  const auto& desc = batch->view.tensor(index);
  const auto name = batch->view.name(index);
  out->name = name.data();
  out->name_bytes = name.size();
  out->data = const_cast<std::byte*>(batch->view.payload(index));
  out->shape = desc.shape;
  out->byte_size = desc.payload_bytes;
  out->dtype_code = desc.dtype_code;
  out->dtype_bits = desc.dtype_bits;
  out->ndim = desc.ndim;
  out->writable = batch->link->body().exclusive != 0 ? 1 : 0;
  out->device_type = desc.device_type;
  out->device_id = desc.device_id;
  out->role = static_cast<stoker_role>(desc.role);
  out->parent = desc.parent;
}

}  // namespace

extern "C" {

stoker_code stoker_batch_get_info(const stoker_batch* batch, stoker_batch_info* out) {
  if (batch == nullptr || out == nullptr) {
    return Fail(STOKER_INVALID_ARGUMENT, "stoker_batch_get_info: NULL");
  }
  const auto& header = batch->view.header();
  stoker_batch_info info = {};
  info.struct_bytes = out->struct_bytes;
  info.rows = header.rows;
  info.real_rows = header.real_rows;
  info.capacity_rows = header.capacity_rows;
  info.skipped_rows = header.skipped_rows;
  info.tensors = header.tensor_count;
  info.epoch = header.epoch;
  info.step = header.step;
  info.first_row = header.first_row;
  info.slot_bytes = header.slot_bytes;
  info.published_ns = header.published_ns;
  const std::size_t bytes = out->struct_bytes < sizeof(info) ? out->struct_bytes : sizeof(info);
  std::memcpy(out, &info, bytes);
  return STOKER_OK;
}

stoker_code stoker_batch_tensor(const stoker_batch* batch, uint32_t index, stoker_tensor* out) {
  if (batch == nullptr || out == nullptr) {
    return Fail(STOKER_INVALID_ARGUMENT, "stoker_batch_tensor: NULL");
  }
  if (index >= batch->view.size()) {
    return Fail(STOKER_INVALID_ARGUMENT, "tensor %u of a batch of %u", index, batch->view.size());
  }
  Fill(batch, index, out);
  return STOKER_OK;
}

stoker_code stoker_batch_find(const stoker_batch* batch, const char* name, stoker_tensor* out) {
  if (batch == nullptr || name == nullptr || out == nullptr) {
    return Fail(STOKER_INVALID_ARGUMENT, "stoker_batch_find: NULL");
  }
  const std::size_t bytes = std::strlen(name);
  for (std::uint32_t i = 0; i < batch->view.size(); ++i) {
    const auto have = batch->view.name(i);
    if (have.size() != bytes || std::memcmp(have.data(), name, bytes) != 0) continue;
    Fill(batch, i, out);
    return STOKER_OK;
  }
  return Fail(STOKER_NOT_FOUND, "the batch has no tensor \"%s\"", name);
}

void stoker_batch_retain(stoker_batch* batch) {
  if (batch != nullptr) batch->references.fetch_add(1, std::memory_order_relaxed);
}

void stoker_batch_release(stoker_batch* batch) {
  if (batch == nullptr) return;
  if (batch->references.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  // A forked child has neither the slot nor the mailbox: its parent gives the slot back.
  if (stoker::client::OwnedHere(batch->stream)) batch->link->Return(batch->slot, batch->generation);
  stoker::client::OldArenaGone(batch->stream, batch->link->Release());
  stoker::client::ReleaseStream(batch->stream);
  batch->~stoker_batch();
  std::free(batch);
}

stoker_code stoker_batch_token(const stoker_batch* batch, char* buffer, size_t capacity) {
  if (batch == nullptr) return Fail(STOKER_INVALID_ARGUMENT, "stoker_batch_token: NULL");
  return stoker::client::WriteToken(batch->token, buffer, capacity);
}

}  // extern "C"
