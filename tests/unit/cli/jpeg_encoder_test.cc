#include "client/cli/jpeg_encoder.h"

#include <vector>

#include "daemon/image/jpeg.h"
#include "tests/support/catch.h"

using stoker::cli::EncodeJpeg;

TEST_CASE("what is encoded decodes to nearly the same pixels") {
  std::vector<std::uint8_t> rgb(16 * 24 * 3, 200);
  auto jpeg = EncodeJpeg(rgb, 16, 24);
  REQUIRE(jpeg.ok());
  stoker::image::Pixels pixels;
  stoker::image::ImageCounters counters;
  std::string detail;
  REQUIRE(stoker::image::DecodeJpeg(std::as_bytes(std::span(*jpeg)), {}, &pixels, &counters,
                                    &detail) == stoker::FaultClass::kNone);
  CHECK(pixels.height == 16);
  CHECK(pixels.width == 24);
  CHECK(std::abs(int{pixels.data[0]} - 200) <= 2);
}

TEST_CASE("what libjpeg refuses is an error and not the end of the process") {
  std::vector<std::uint8_t> tall(std::size_t{70000} * 3, 1);
  auto jpeg = EncodeJpeg(tall, 70000, 1);
  REQUIRE(!jpeg.ok());
  CHECK(jpeg.status().message() == "Maximum supported image dimension is 65500 pixels");
  CHECK(!EncodeJpeg({}, 0, 0).ok());
  CHECK(!EncodeJpeg(tall, 7, 1).ok());
}
