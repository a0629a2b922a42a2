#include "daemon/image/colour.h"

#include <algorithm>
#include <cmath>

namespace stoker::image {
namespace {

struct Rgb {
  float r, g, b;
};

// Each pixel through `f`, which takes and gives values of 0 to range.
template <typename F>
void Each(const Canvas& canvas, F f) {
  float* p = canvas.pixels;
  for (std::size_t i = 0; i < canvas.size(); ++i, p += kStep) {
    const Rgb out = f(Rgb{p[0], p[1], p[2]});
    p[0] = out.r;
    p[1] = out.g;
    p[2] = out.b;
  }
}

float Clamp(float value, float most) { return std::min(std::max(value, 0.0f), most); }

// What torchvision keeps of a value.
float Torch(const Canvas& canvas, float value) {
  const float clamped = Clamp(value, canvas.range);
  return canvas.whole ? std::trunc(clamped) : clamped;
}

// The same of one that was brought to 0 to 1.
float TorchUnit(const Canvas& canvas, float value) {
  if (!canvas.whole) return value * canvas.range;
  return std::trunc(value * (canvas.range + 1.0f - 1e-3f));
}

// What TensorFlow keeps of a value of 0 to 1.
float TfUnit(const Canvas& canvas, float value) {
  if (!canvas.whole) return value * canvas.range;
  return std::trunc(Clamp(value * (canvas.range + 0.5f), canvas.range));
}

float ToUnit(const Canvas& canvas, float value) { return value * (1.0f / canvas.range); }

float Gray(const Rgb& p) { return p.r * 0.2989f + p.g * 0.587f + p.b * 0.114f; }

// torchvision blends with a gray that is whole where the image is.
float GrayOf(const Canvas& canvas, const Rgb& p) {
  if (canvas.channels == 1) return p.r;
  return canvas.whole ? std::floor(Gray(p)) : Gray(p);
}

// torchvision's add rounds once, as a fused multiply-add does: the product is exact in double.
float Mix(float value, float factor, float other, float rest) {
  const float scaled = value * factor;
  return static_cast<float>(static_cast<double>(other) * static_cast<double>(rest) +
                            static_cast<double>(scaled));
}

void Blend(const Canvas& canvas, Rgb* p, float other, double by) {
  const auto factor = static_cast<float>(by);
  const auto rest = static_cast<float>(1.0 - by);
  p->r = Torch(canvas, Mix(p->r, factor, other, rest));
  p->g = Torch(canvas, Mix(p->g, factor, other, rest));
  p->b = Torch(canvas, Mix(p->b, factor, other, rest));
}

struct Hsv {
  float h, s, v;  // h: 0 to 1
};

Hsv TorchHsv(const Rgb& p) {
  const float most = std::max({p.r, p.g, p.b});
  const float least = std::min({p.r, p.g, p.b});
  if (most == least) return {0.0f, 0.0f, most};
  const float span = most - least;
  const float rc = (most - p.r) / span;
  const float gc = (most - p.g) / span;
  const float bc = (most - p.b) / span;
  const float h = most == p.r ? bc - gc : most == p.g ? rc + 2.0f - bc : gc + 4.0f - rc;
  return {std::fmod(h * (1.0f / 6.0f) + 1.0f, 1.0f), span / most, most};
}

Rgb TorchRgb(const Hsv& hsv) {
  const float h6 = hsv.h * 6.0f;
  const float sector = std::floor(h6);
  const float f = h6 - sector;
  const float sf = hsv.s * f;
  const float rest = 1.0f - hsv.s;
  const float v = hsv.v;
  const float q = Clamp((1.0f - sf) * v, 1.0f);
  const float t = Clamp((sf + rest) * v, 1.0f);
  const float p = Clamp(rest * v, 1.0f);
  switch (static_cast<int>(sector) % 6) {
    case 0:
      return {v, t, p};
    case 1:
      return {q, v, p};
    case 2:
      return {p, v, t};
    case 3:
      return {p, q, v};
    case 4:
      return {t, p, v};
    default:
      return {v, p, q};
  }
}

Hsv TfHsv(const Rgb& p) {
  const float most = std::max({p.r, p.g, p.b});
  const float span = most - std::min({p.r, p.g, p.b});
  const float s = most > 0.0f ? span / most : 0.0f;
  if (span <= 0.0f) return {0.0f, s, most};
  const float norm = 1.0f / (6.0f * span);
  float h = most == p.r   ? norm * (p.g - p.b)
            : most == p.g ? norm * (p.b - p.r) + 2.0f / 6.0f
                          : norm * (p.r - p.g) + 4.0f / 6.0f;
  if (h < 0.0f) h += 1.0f;
  return {h, s, most};
}

Rgb TfRgb(const Hsv& hsv) {
  const float c = hsv.s * hsv.v;
  const float m = hsv.v - c;
  const float h6 = hsv.h * 6.0f;
  float within = h6;
  while (within >= 2.0f) within -= 2.0f;
  const float x = c * (1.0f - std::fabs(within - 1.0f));
  switch (static_cast<int>(h6)) {
    case 0:
      return {c + m, x + m, m};
    case 1:
      return {x + m, c + m, m};
    case 2:
      return {m, c + m, x + m};
    case 3:
      return {m, x + m, c + m};
    case 4:
      return {x + m, m, c + m};
    case 5:
      return {c + m, m, x + m};
    default:
      return {m, m, m};
  }
}

// The channels in falling order for each sixth of the circle: which is largest, between, smallest.
constexpr int kSectors[6][3] = {{0, 1, 2}, {1, 0, 2}, {1, 2, 0}, {2, 1, 0}, {2, 0, 1}, {0, 2, 1}};

int SectorOf(const Rgb& p) {
  if (p.r < p.g) return p.b < p.r ? 1 : p.b > p.g ? 3 : 2;
  return p.b < p.g ? 0 : p.b > p.r ? 4 : 5;
}

Rgb TfTurn(const Rgb& p, float delta) {
  const float in[3] = {p.r, p.g, p.b};
  const int from = SectorOf(p);
  const float most = in[kSectors[from][0]];
  const float least = in[kSectors[from][2]];
  float h = 0.0f;
  if (most != least) {
    const float ratio = (in[kSectors[from][1]] - least) / (most - least);
    h = static_cast<float>(from) + (from % 2 == 0 ? ratio : 1.0f - ratio);
  }
  h += delta * 6.0f;
  while (h < 0.0f) h += 6.0f;
  while (h >= 6.0f) h -= 6.0f;
  const int to = static_cast<int>(h);
  float ratio = h - static_cast<float>(to);
  if (to % 2 != 0) ratio = 1.0f - ratio;
  float out[3];
  out[kSectors[to][0]] = most;
  out[kSectors[to][1]] = least + ratio * (most - least);
  out[kSectors[to][2]] = least;
  return {out[0], out[1], out[2]};
}

Rgb ToUnit(const Canvas& canvas, const Rgb& p) {
  return {ToUnit(canvas, p.r), ToUnit(canvas, p.g), ToUnit(canvas, p.b)};
}

Rgb TfUnit(const Canvas& canvas, const Rgb& p) {
  return {TfUnit(canvas, p.r), TfUnit(canvas, p.g), TfUnit(canvas, p.b)};
}

}  // namespace

void AdjustBrightness(const Canvas& canvas, double factor) {
  Each(canvas, [&](Rgb p) {
    Blend(canvas, &p, 0.0f, factor);
    return p;
  });
}

void AdjustContrast(const Canvas& canvas, double factor) {
  double sum = 0.0;
  const float* at = canvas.pixels;
  for (std::size_t i = 0; i < canvas.size(); ++i, at += kStep) {
    sum += static_cast<double>(GrayOf(canvas, {at[0], at[1], at[2]}));
  }
  const auto mean = static_cast<float>(sum / static_cast<double>(canvas.size()));
  Each(canvas, [&](Rgb p) {
    Blend(canvas, &p, mean, factor);
    return p;
  });
}

void AdjustSaturation(const Canvas& canvas, double factor) {
  if (canvas.channels == 1) return;
  Each(canvas, [&](Rgb p) {
    Blend(canvas, &p, GrayOf(canvas, p), factor);
    return p;
  });
}

void AdjustHue(const Canvas& canvas, float turn) {
  if (canvas.channels == 1) return;
  Each(canvas, [&](const Rgb& p) {
    Hsv hsv = TorchHsv({p.r / canvas.range, p.g / canvas.range, p.b / canvas.range});
    hsv.h += turn;
    hsv.h -= std::floor(hsv.h);
    const Rgb out = TorchRgb(hsv);
    return Rgb{TorchUnit(canvas, out.r), TorchUnit(canvas, out.g), TorchUnit(canvas, out.b)};
  });
}

void MakeGray(const Canvas& canvas) {
  if (canvas.channels == 1) return;
  Each(canvas, [&](const Rgb& p) {
    const float gray = canvas.whole ? std::trunc(Gray(p)) : Gray(p);
    return Rgb{gray, gray, gray};
  });
}

void AdjustTfBrightness(const Canvas& canvas, float delta) {
  Each(canvas, [&](const Rgb& p) {
    const Rgb unit = ToUnit(canvas, p);
    return TfUnit(canvas, Rgb{unit.r + delta, unit.g + delta, unit.b + delta});
  });
}

void AdjustTfContrast(const Canvas& canvas, float factor) {
  double sums[3] = {};
  const float* at = canvas.pixels;
  for (std::size_t i = 0; i < canvas.size(); ++i, at += kStep) {
    for (std::size_t c = 0; c < 3; ++c) sums[c] += static_cast<double>(ToUnit(canvas, at[c]));
  }
  float mean[3];
  for (std::size_t c = 0; c < 3; ++c) {
    mean[c] = static_cast<float>(sums[c] / static_cast<double>(canvas.size()));
  }
  Each(canvas, [&](const Rgb& p) {
    const Rgb unit = ToUnit(canvas, p);
    return TfUnit(canvas,
                  Rgb{(unit.r - mean[0]) * factor + mean[0], (unit.g - mean[1]) * factor + mean[1],
                      (unit.b - mean[2]) * factor + mean[2]});
  });
}

void AdjustTfSaturation(const Canvas& canvas, float factor) {
  if (canvas.channels == 1) return;
  Each(canvas, [&](const Rgb& p) {
    Hsv hsv = TfHsv(ToUnit(canvas, p));
    hsv.s = Clamp(hsv.s * factor, 1.0f);
    return TfUnit(canvas, TfRgb(hsv));
  });
}

void AdjustTfHue(const Canvas& canvas, float delta) {
  if (canvas.channels == 1) return;
  Each(canvas, [&](const Rgb& p) { return TfUnit(canvas, TfTurn(ToUnit(canvas, p), delta)); });
}

void Fill(const Canvas& canvas, const Window& window, float value) {
  for (std::uint32_t y = window.y; y < window.y + window.h; ++y) {
    float* row = canvas.pixels + (std::size_t{y} * canvas.width + window.x) * kStep;
    std::fill_n(row, window.w * kStep, value);
  }
}

}  // namespace stoker::image
