// exp, log and sine for random draws and kernels: our own, for libm's pick their code by the CPU
// and differ in the last bit. Plain IEEE arithmetic in a fixed order, within 1e-14 of the true
// value on the ranges that crops use.
#pragma once

#include <cmath>

namespace stoker::image {

inline double DrawExp(double x) {
  constexpr double kLn2 = 0.693147180559945309417232121458;
  const double k = std::nearbyint(x / kLn2);
  const double r = x - k * kLn2;
  double term = 1.0;
  double sum = 1.0;
  for (int i = 1; i <= 16; ++i) {
    term = term * r / i;
    sum += term;
  }
  return std::ldexp(sum, static_cast<int>(k));
}

// REQUIRES: x > 0. Newton's method on DrawExp, from a start within a factor of two.
inline double DrawLog(double x) {
  int exponent = 0;
  (void)std::frexp(x, &exponent);
  double y = exponent * 0.693147180559945309417232121458;
  for (int i = 0; i < 6; ++i) {
    const double e = DrawExp(y);
    y += 2.0 * (x - e) / (x + e);
  }
  return y;
}

// REQUIRES: |x| below 100. Taylor's series around the nearest multiple of pi.
inline double DrawSin(double x) {
  constexpr double kPi = 3.14159265358979323846264338328;
  const double k = std::nearbyint(x / kPi);
  const double r = x - k * kPi;
  double term = r;
  double sum = r;
  for (int i = 1; i <= 10; ++i) {
    term = -term * r * r / ((2 * i) * (2 * i + 1));
    sum += term;
  }
  return std::fmod(k, 2.0) == 0.0 ? sum : -sum;
}

}  // namespace stoker::image
