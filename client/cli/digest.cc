#include "client/cli/digest.h"

namespace stoker::cli {

void EpochDigest::Add(const BatchTensors& tensors, std::uint32_t row) {
  for (std::uint32_t i = 0; i < tensors.size(); ++i) {
    const RowValues values = tensors.Row(i, row);
    const bool counted = tensors.varies(i) || tensors.strings(i) || tensors.padded(i);
    if (counted) row_.UpdateLittle(values.count);
    if (!tensors.strings(i)) {
      row_.Update({values.data, values.bytes});
      continue;
    }
    std::uint64_t first = 0;
    std::uint64_t last = 0;
    tensors.Strings(i, row, &first, &last);
    for (std::uint64_t s = first; s < last; ++s) {
      const auto text = tensors.String(i, s);
      row_.UpdateLittle(std::uint64_t{text.size()});
      row_.Update(std::as_bytes(std::span(text)));
    }
  }
  rows_.UpdateLittle(tensors.row_id(row));
  const Sha256::Digest of_row = row_.Finish();
  rows_.Update(std::as_bytes(std::span(of_row)));
}

}  // namespace stoker::cli
