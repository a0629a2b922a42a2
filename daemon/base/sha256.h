// SHA-256, by OpenSSL.
#pragma once

#include <openssl/evp.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace stoker {

class Sha256 {
 public:
  using Digest = std::array<std::uint8_t, 32>;

  Sha256() : context_(EVP_MD_CTX_new()) {
    EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr);
  }

  void Update(std::span<const std::byte> bytes) {
    EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size());
  }
  // Little-endian.
  template <typename T>
  void UpdateLittle(T value) {
    Update(std::as_bytes(std::span(&value, 1)));
  }
  Digest Finish() {
    Digest digest;
    EVP_DigestFinal_ex(context_.get(), digest.data(), nullptr);
    EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr);
    return digest;
  }
  static std::string Hex(const Digest& digest) {
    std::string text;
    for (const std::uint8_t byte : digest) {
      text += "0123456789abcdef"[byte >> 4];
      text += "0123456789abcdef"[byte & 15];
    }
    return text;
  }

 private:
  struct Free {
    void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
  };
  std::unique_ptr<EVP_MD_CTX, Free> context_;
};

}  // namespace stoker
