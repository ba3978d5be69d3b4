// Kernels on processors with wide vectors: the same to the last bit as without.
#include <gpuactors/kernels/layers.hpp>
#include <gpuactors/kernels/loss.hpp>
#include <gpuactors/kernels/optimizer.hpp>

#include <support/catch.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#ifdef GPUACTORS_WIDE_KERNELS

using namespace gpuactors;

namespace {

/// Of no vector's length, so that there is an end to be done one by one.
constexpr std::uint64_t elements = 1003;
constexpr std::uint64_t columns = 59;
constexpr std::uint64_t rows = elements / columns;

/// Numbers of all sizes, and some that are none.
template <class T>
std::vector<T> make_numbers(std::mt19937& random) {
  std::normal_distribution<T> normal;
  std::vector<T> numbers;
  for (std::uint64_t i = 0; i < elements; ++i)
    numbers.push_back(normal(random) * static_cast<T>(i % 7 == 0 ? 1e-20 : 1));
  numbers[5] = std::numeric_limits<T>::quiet_NaN();
  numbers[6] = std::numeric_limits<T>::infinity();
  numbers[7] = std::numeric_limits<T>::denorm_min();
  numbers[8] = T{-0.0};
  return numbers;
}

template <class T>
using Arrays = std::array<std::vector<T>, 4>;

/// There are many bits for what is no number, and no rule for which.
template <class T>
bool same_value(T x, T y) {
  return (std::isnan(x) && std::isnan(y)) || std::memcmp(&x, &y, sizeof(T)) == 0;
}

template <class T>
bool same(const Arrays<T>& a, const Arrays<T>& b) {
  for (std::size_t i = 0; i < a.size(); ++i)
    if (!std::equal(a[i].begin(), a[i].end(), b[i].begin(), same_value<T>))
      return false;
  return true;
}

/// Whether there is a number where there was another: a kernel that spoils everything would agree with itself.
template <class T>
bool changed(const Arrays<T>& after, const Arrays<T>& before) {
  for (std::size_t i = 0; i < after.size(); ++i)
    for (std::size_t j = 0; j < after[i].size(); ++j)
      if (std::isfinite(after[i][j]) && !same_value(after[i][j], before[i][j]))
        return true;
  return false;
}

/// Whether `Functor` makes the same of the same arrays in both ways; `pack(arrays)` are its arguments.
template <class Functor, class T, class MakePack>
bool agrees(std::uint64_t n, MakePack make_pack) {
  std::mt19937 random{1};
  Arrays<T> narrow;
  for (auto& array : narrow)
    array = make_numbers<T>(random);
  auto wide = narrow;
  const auto narrow_pack = make_pack(narrow);
  const auto before = narrow;
  const auto wide_pack = make_pack(wide);
  detail::IndexLoop<Functor>::run(0, n, &narrow_pack);
  detail::run_wide<detail::IndexLoop<Functor>>(0, n, &wide_pack);
  return same(narrow, wide) && changed(narrow, before);
}

template <class T>
void check_all() {
  using namespace gpuactors::kernels;
  const auto tiling = Tiling::of(columns, columns);
  const SgdParameters<T> sgd{T(0.1), T(0.9), T(0.001)};
  const AdamParameters<T> adam = AdamParameters<T>{}.at_step(3);
  CHECK(agrees<SgdStep<T>, T>(
      elements, [&](Arrays<T>& a) { return pack_arguments(T(0.1), static_cast<const T*>(a[0].data()), a[1].data()); }));
  CHECK(agrees<MomentumUpdate<T>, T>(3, [&](Arrays<T>& a) {
    return pack_arguments(elements, std::uint64_t{400}, sgd, static_cast<const T*>(a[0].data()), a[1].data(),
                          a[2].data());
  }));
  CHECK(agrees<AdamUpdate<T>, T>(3, [&](Arrays<T>& a) {
    // A mean of squares.
    for (auto& second : a[2])
      second = std::abs(second);
    return pack_arguments(elements, std::uint64_t{400}, adam, T(0.001), static_cast<const T*>(a[0].data()), a[1].data(),
                          a[2].data(), a[3].data());
  }));
  CHECK(agrees<BiasRelu<T>, T>(
      rows, [&](Arrays<T>& a) { return pack_arguments(tiling, static_cast<const T*>(a[0].data()), a[1].data()); }));
  CHECK(agrees<BiasTanh<T>, T>(
      rows, [&](Arrays<T>& a) { return pack_arguments(tiling, static_cast<const T*>(a[0].data()), a[1].data()); }));
  CHECK(agrees<BiasBackward<T, ReluDerivative<T>>, T>(1, [&](Arrays<T>& a) {
    return pack_arguments(rows, tiling, static_cast<const T*>(a[0].data()), a[1].data(), a[2].data());
  }));
  const std::vector<std::int32_t> labels(rows, 3);
  CHECK(agrees<SoftmaxCrossEntropy<T>, T>(rows, [&](Arrays<T>& a) {
    // Added to every row: what is no number would leave no row with any.
    std::fill_n(a[0].begin(), 10, T{0});
    return pack_arguments(columns, T(0.25), static_cast<const std::int32_t*>(nullptr), labels.data(),
                          static_cast<const T*>(a[0].data()), a[1].data(), a[2].data());
  }));
}

} // namespace

TEST_CASE("kernels give the same with wide vectors as without, to the last bit", "[kernels]") {
  if (!__builtin_cpu_supports("avx2")) {
    WARN("this processor has no wide vectors");
    return;
  }
  check_all<float>();
  check_all<double>();
}

#endif
