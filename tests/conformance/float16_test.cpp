// Tensors of 16-bit elements: their bytes, conversions and kernels on the device, and how their products sum and round.
#include <gpuactors/kernels/convert.hpp>
#include <gpuactors/kernels/elementwise.hpp>

#include <conformance/candidates.hpp>

#include <cmath>

using namespace gpuactors;
using namespace gpuactors::conformance;
namespace k = gpuactors::kernels;

namespace {

template <class T>
std::vector<T> all_patterns() {
  std::vector<T> result;
  for (unsigned bits = 0; bits < 65536; ++bits)
    result.push_back(T::from_bits(static_cast<std::uint16_t>(bits)));
  return result;
}

/// How many differ. All NaN count as equal: which payload one has is the device's business.
template <class T>
std::size_t differences(const Result<std::vector<T>>& result, const std::vector<T>& expected) {
  REQUIRE(result);
  REQUIRE(result->size() == expected.size());
  std::size_t count = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const float is = (*result)[i];
    const float wanted = expected[i];
    const bool same = std::isnan(wanted) ? std::isnan(is) : is == wanted && std::signbit(is) == std::signbit(wanted);
    count += same ? 0 : 1;
  }
  return count;
}

template <class T>
bool is_within_half_a_step(const std::vector<T>& result, const std::vector<double>& expected) {
  const auto step = static_cast<double>(std::numeric_limits<T>::epsilon());
  for (std::size_t i = 0; i < expected.size(); ++i)
    // The rounding to 16 bits, and a little for what was computed in f32 before.
    if (std::abs(static_cast<double>(result[i]) - expected[i]) > std::abs(expected[i]) * step * 0.5 + 1e-6)
      return false;
  return result.size() == expected.size();
}

} // namespace

TEMPLATE_TEST_CASE("tensors of 16-bit elements take 2 bytes each and keep every bit", "", Float16, BFloat16) {
  using T = TestType;
  FOR_EACH_DEVICE(candidate) {
    auto context = open(candidate);
    auto& stream = context->stream();
    const auto patterns = all_patterns<T>();
    auto x = stream.tensor_from(patterns, {256, 256});
    REQUIRE(x);
    CHECK(x->dtype() == dtype_of<T>);
    CHECK(x->bytes() == 131072);
    CHECK(context->memory_used() == 131072);
    auto y = stream.tensor(dtype_of<T>, {65536});
    REQUIRE(y);
    REQUIRE(stream.copy(*y, *x));
    const auto back = stream.to_host<T>(*y);
    REQUIRE(back);
    CHECK(std::equal(back->begin(), back->end(), patterns.begin(), patterns.end(),
                     [](T a, T b) { return a.bits() == b.bits(); }));
    CHECK(stream.to_host<float>(*y).error().code() == Errc::invalid_argument);
    const std::vector<std::uint8_t> of_another_type(65536);
    CHECK(stream.upload(*y, of_another_type).error().code() == Errc::invalid_argument);
  }
}

TEMPLATE_TEST_CASE("kernels convert every 16-bit number to f32 and back", "", Float16, BFloat16) {
  using T = TestType;
  FOR_EACH_DEVICE(candidate) {
    auto context = open(candidate);
    auto& stream = context->stream();
    const auto patterns = all_patterns<T>();
    constexpr std::uint64_t n = 65536;
    auto x = stream.tensor_from(patterns);
    auto wide = stream.tensor(DType::f32, {n});
    auto back = stream.tensor(dtype_of<T>, {n});
    REQUIRE(x);
    REQUIRE(wide);
    REQUIRE(back);
    // In stream order: nobody waits between them.
    REQUIRE(stream.launch(k::convert<T, float>(), n, *x, *wide));
    REQUIRE(stream.launch(k::convert<float, T>(), n, *wide, *back));
    CHECK(differences(stream.to_host<float>(*wide), std::vector<float>(patterns.begin(), patterns.end())) == 0);
    CHECK(differences(stream.to_host<T>(*back), patterns) == 0);
    // Of another type than the kernel's.
    CHECK(stream.launch(k::convert<T, float>(), n, *wide, *wide).error().code() == Errc::invalid_argument);
  }
}

TEMPLATE_TEST_CASE("kernels round f32 to 16 bits as the host does", "", Float16, BFloat16) {
  using T = TestType;
  FOR_EACH_DEVICE(candidate) {
    auto context = open(candidate);
    auto& stream = context->stream();
    // Of all sizes down to 2^-40, and what lies in the middle between two numbers.
    std::vector<float> x;
    for (const auto value : values<float>(20000, 7))
      x.push_back(value * std::ldexp(1.0F, static_cast<int>(x.size() % 60) - 40));
    for (int i = -3000; i < 3000; ++i)
      x.push_back(std::ldexp(static_cast<float>(i) + 0.5F, -12));
    std::vector<T> expected;
    for (const auto value : x)
      expected.push_back(T{value});
    const auto n = x.size();
    auto dx = stream.tensor_from(x);
    auto dy = stream.tensor(dtype_of<T>, {static_cast<std::int64_t>(n)});
    REQUIRE(dx);
    REQUIRE(dy);
    REQUIRE(stream.launch(k::convert<float, T>(), n, *dx, *dy));
    CHECK(differences(stream.to_host<T>(*dy), expected) == 0);
  }
}

TEMPLATE_TEST_CASE("elementwise kernels of 16-bit elements compute in f32 and round once", "", Float16, BFloat16) {
  using T = TestType;
  FOR_EACH_DEVICE(candidate) {
    auto context = open(candidate);
    auto& stream = context->stream();
    constexpr std::uint64_t n = 1003;
    const auto x = values<T>(n, 1);
    const auto y = values<T>(n, 2);
    auto dx = stream.tensor_from(x);
    auto dy = stream.tensor_from(y);
    auto dz = stream.tensor(dtype_of<T>, {n});
    REQUIRE(dx);
    REQUIRE(dy);
    REQUIRE(dz);
    const auto gives = [&](auto f) {
      const auto result = stream.to_host<T>(*dz);
      std::vector<double> expected;
      for (std::size_t i = 0; i < n; ++i)
        expected.push_back(f(static_cast<double>(x[i]), static_cast<double>(y[i])));
      return result && is_within_half_a_step(*result, expected);
    };
    REQUIRE(stream.launch(k::fill_value<T>(), n, T{3}, *dz));
    CHECK(gives([](double, double) { return 3.0; }));
    REQUIRE(stream.launch(k::polynomial<T>(), n, *dx, *dz));
    CHECK(gives([](double a, double) { return (a + 1) * (a + 1); }));
    REQUIRE(stream.launch(k::add<T>(), n, *dx, *dy, *dz));
    CHECK(gives([](double a, double b) { return a + b; }));
    REQUIRE(stream.copy(*dz, *dy));
    REQUIRE(stream.launch(k::axpy<T>(), n, 0.3F, *dx, *dz));
    CHECK(gives([](double a, double b) { return 0.3F * a + b; }));
    REQUIRE(stream.copy(*dz, *dx));
    REQUIRE(stream.launch(k::scale<T>(), n, 1.7F, *dz));
    CHECK(gives([](double a, double) { return 1.7F * a; }));
  }
}

TEMPLATE_TEST_CASE("products of 16-bit elements sum in f32 and round once, to either type", "", Float16, BFloat16) {
  using T = TestType;
  FOR_EACH_DEVICE(candidate) {
    auto context = open(candidate);
    auto& stream = context->stream();
    // So many ones that a sum of 16 bits would stand still long before the end (at 2048, or at 256).
    constexpr std::int64_t k = 5000;
    auto a = stream.tensor_from(std::vector<T>(k, T{1}), {1, k});
    auto b = stream.tensor_from(std::vector<T>(k, T{1}), {k, 1});
    auto wide = stream.tensor_from(std::vector<float>{0.5F}, {1, 1});
    auto narrow = stream.tensor_from(std::vector<T>{std::numeric_limits<T>::quiet_NaN()}, {1, 1});
    REQUIRE(a);
    REQUIRE(b);
    REQUIRE(wide);
    REQUIRE(narrow);
    REQUIRE(stream.gemm(*a, *b, *wide, {.beta = 2.0}));
    CHECK(stream.to_host<float>(*wide)->front() == 5001.0F);
    // What is not a number there is not read: beta is 0.
    REQUIRE(stream.gemm(*a, *b, *narrow));
    CHECK(stream.to_host<T>(*narrow)->front() == T{5000.0F});
    // The factor comes before the rounding, so that what does not fit may fit with it.
    auto large = stream.tensor_from(std::vector<T>(4, T{0x1p15F}), {2, 2});
    auto c = stream.tensor(dtype_of<T>, {2, 2});
    REQUIRE(large);
    REQUIRE(c);
    REQUIRE(stream.gemm(*large, *large, *c, {.alpha = 0x1p-20}));
    CHECK(*stream.to_host<T>(*c) == std::vector<T>(4, T{0x1p11F}));
    REQUIRE(stream.gemm(*large, *large, *c));
    CHECK(*stream.to_host<T>(*c) == std::vector<T>(4, T{0x1p31F})); // infinite in Float16
  }
}

TEMPLATE_TEST_CASE("large products of 16-bit elements are right in every element", "", Float16, BFloat16) {
  using T = TestType;
  FOR_EACH_DEVICE(candidate) {
    auto context = open(candidate);
    auto& stream = context->stream();
    // Larger than what is computed at once, in each dimension. All sums are whole numbers that both types have.
    constexpr std::int64_t m = 530;
    constexpr std::int64_t n = 1050;
    constexpr std::int64_t k = 261;
    const auto a_at = [](std::int64_t row, std::int64_t p) { return p % 9 == row % 9 ? 1 + row % 2 : 0; };
    const auto b_at = [](std::int64_t p, std::int64_t column) { return (p + column) % 3; };
    std::vector<T> a;
    std::vector<T> b;
    for (std::int64_t row = 0; row < m; ++row)
      for (std::int64_t p = 0; p < k; ++p)
        a.push_back(T{static_cast<int>(a_at(row, p))});
    for (std::int64_t p = 0; p < k; ++p)
      for (std::int64_t column = 0; column < n; ++column)
        b.push_back(T{static_cast<int>(b_at(p, column))});
    auto da = stream.tensor_from(a, {m, k});
    auto db = stream.tensor_from(b, {k, n});
    auto dc = stream.tensor(dtype_of<T>, {m, n});
    REQUIRE(da);
    REQUIRE(db);
    REQUIRE(dc);
    REQUIRE(stream.gemm(*da, *db, *dc));
    const auto c = stream.to_host<T>(*dc);
    REQUIRE(c);
    std::int64_t wrong = 0;
    for (std::int64_t row = 0; row < m; ++row)
      for (std::int64_t column = 0; column < n; ++column) {
        std::int64_t sum = 0;
        for (auto p = row % 9; p < k; p += 9)
          sum += a_at(row, p) * b_at(p, column);
        wrong += (*c)[static_cast<std::size_t>(row * n + column)] == static_cast<float>(sum) ? 0 : 1;
      }
    CHECK(wrong == 0);
  }
}

TEST_CASE("products of 16-bit elements with a result of another type are refused, with those that there are") {
  FOR_EACH_DEVICE(candidate) {
    auto context = open(candidate);
    auto& stream = context->stream();
    auto half = stream.tensor(DType::f16, {2, 2});
    auto brain = stream.tensor(DType::bf16, {2, 2});
    auto single = stream.tensor(DType::f32, {2, 2});
    auto wide = stream.tensor(DType::f64, {2, 2});
    REQUIRE(wide);
    const auto mixed = stream.gemm(*half, *brain, *half);
    REQUIRE_FALSE(mixed);
    CHECK(mixed.error()
          == Error{Errc::invalid_argument, "a matrix product needs one element type, but for an f32 result of f16 or "
                                           "bf16: a f16 [2, 2], b bf16 [2, 2], c f16 [2, 2]"});
    for (auto* c : {&*brain, &*wide})
      CHECK(stream.gemm(*half, *half, *c).error().code() == Errc::invalid_argument);
    CHECK(stream.gemm(*single, *single, *half).error().code() == Errc::invalid_argument);
    Gemm raw;
    raw.dtype = DType::bf16;
    raw.result = DType::f64;
    const auto refused = stream.gemm(raw);
    REQUIRE_FALSE(refused);
    CHECK(refused.error() == Error{Errc::unsupported, "a matrix product of bf16 has a result of bf16 or f32, not f64"});
    raw.dtype = DType::f64;
    raw.result = DType::f32;
    CHECK(stream.gemm(raw).error().message() == "a matrix product of f64 has a result of f64, not f32");
    raw.dtype = DType::u8;
    CHECK(stream.gemm(raw).error().message() == "matrix products are of f32, f64, f16 or bf16, not u8");
  }
}
