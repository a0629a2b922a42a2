#include "client/cli/jpeg_encoder.h"

#include <vector>

#include "daemon/image/decode.h"
#include "tests/support/catch.h"

using stoker::cli::EncodeJpeg;

TEST_CASE("what is encoded decodes to nearly the same pixels") {
  std::vector<std::uint8_t> rgb(16 * 24 * 3, 200);
  auto jpeg = EncodeJpeg(rgb, 16, 24);
  REQUIRE(jpeg.ok());
  stoker::image::Decoder decoder;
  stoker::image::ImageCounters counters;
  std::string detail;
  REQUIRE(decoder.Open(std::as_bytes(std::span(*jpeg)), {}, &counters, &detail) ==
          stoker::FaultClass::kNone);
  CHECK(decoder.height() == 16);
  CHECK(decoder.width() == 24);
  stoker::image::View view;
  REQUIRE(decoder.Read({0, 0, 16, 24}, &view, &detail) == stoker::FaultClass::kNone);
  CHECK(std::abs(int{view.bytes[0]} - 200) <= 2);
  decoder.Close(&counters);
}

TEST_CASE("what libjpeg refuses is an error and not the end of the process") {
  std::vector<std::uint8_t> tall(std::size_t{70000} * 3, 1);
  auto jpeg = EncodeJpeg(tall, 70000, 1);
  REQUIRE(!jpeg.ok());
  CHECK(jpeg.status().message() == "Maximum supported image dimension is 65500 pixels");
  CHECK(!EncodeJpeg({}, 0, 0).ok());
  CHECK(!EncodeJpeg(tall, 7, 1).ok());
}
