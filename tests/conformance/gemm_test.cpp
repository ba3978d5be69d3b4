// Matrix products against a reference in float64.
#include <conformance/candidates.hpp>
#include <fmt/format.h>

#include <cmath>

using namespace gpuactors;
using namespace gpuactors::conformance;

namespace {

struct Case {
  std::int64_t m;
  std::int64_t n;
  std::int64_t k;
  bool transpose_a;
  bool transpose_b;
  double alpha;
  double beta;
  /// Extra elements in each row of A, B and C.
  std::int64_t pad;
};

template <class T>
std::vector<double> widened(const std::vector<T>& x) {
  return {x.begin(), x.end()};
}

/// A matrix row by row, without gaps. `transposed`: it lies column by column.
std::vector<double> dense(const std::vector<double>& x, std::int64_t leading, bool transposed, std::int64_t rows,
                          std::int64_t columns) {
  std::vector<double> result;
  result.reserve(static_cast<std::size_t>(rows * columns));
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t column = 0; column < columns; ++column)
      result.push_back(x[static_cast<std::size_t>(transposed ? column * leading + row : row * leading + column)]);
  return result;
}

/// Half a step of `T` at `value`, which the rounding of a sum in `Sum` costs; 0 if they are the same type.
template <class T, class Sum>
double rounding_error(double value) {
  using Limits = std::numeric_limits<T>;
  if (std::is_same_v<T, Sum>)
    return 0;
  return std::max(std::abs(value) * static_cast<double>(Limits::epsilon()), static_cast<double>(Limits::denorm_min()))
         / 2;
}

/// Runs one product of `T` with a result of `C` and returns the largest error but for the rounding to `C`, relative to
/// what rounding may do to sums of k terms: in f64 for f64, in f32 for all other types.
template <class T, class C = T>
double error_of(Stream& stream, const Case& c) {
  const auto lda = (c.transpose_a ? c.m : c.k) + c.pad;
  const auto ldb = (c.transpose_b ? c.k : c.n) + c.pad;
  const auto ldc = c.n + c.pad;
  const auto a = values<T>(static_cast<std::size_t>((c.transpose_a ? c.k : c.m) * lda), 1);
  const auto b = values<T>(static_cast<std::size_t>((c.transpose_b ? c.n : c.k) * ldb), 2);
  const auto before = values<C>(static_cast<std::size_t>(c.m * ldc), 3);
  auto da = stream.tensor_from(a, {static_cast<std::int64_t>(a.size())});
  auto db = stream.tensor_from(b, {static_cast<std::int64_t>(b.size())});
  auto dc = stream.tensor_from(before, {static_cast<std::int64_t>(before.size())});
  REQUIRE(da);
  REQUIRE(db);
  REQUIRE(dc);
  const Gemm product{dtype_of<T>, c.transpose_a, c.transpose_b, c.m,    c.n,       c.k, c.alpha,    da->raw(),
                     lda,         db->raw(),     ldb,           c.beta, dc->raw(), ldc, dtype_of<C>};
  REQUIRE(stream.gemm(product));
  const auto after = stream.to_host<C>(*dc);
  REQUIRE(after);
  using Sum = std::conditional_t<std::is_same_v<T, double>, double, float>;
  // Both with k in one piece.
  const auto rows_of_a = dense(widened(a), lda, c.transpose_a, c.m, c.k);
  const auto columns_of_b = dense(widened(b), ldb, !c.transpose_b, c.n, c.k);
  const auto wide_before = widened(before);
  const auto wide_after = widened(*after);
  double worst = 0;
  for (std::int64_t i = 0; i < c.m; ++i)
    for (std::int64_t j = 0; j < ldc; ++j) {
      const auto at = static_cast<std::size_t>(i * ldc + j);
      double expected = wide_before[at];
      double allowed = 0;
      if (j < c.n) {
        double sum = 0;
        const auto* row = rows_of_a.data() + i * c.k;
        const auto* column = columns_of_b.data() + j * c.k;
        for (std::int64_t p = 0; p < c.k; ++p)
          sum += row[p] * column[p];
        expected = c.alpha * sum + c.beta * expected;
        allowed = rounding_error<C, Sum>(expected);
      }
      const auto error = std::abs(expected - wide_after[at]) - allowed;
      worst = std::isnan(error) ? HUGE_VAL : std::max(worst, error);
    }
  return worst / (static_cast<double>(c.k) * static_cast<double>(std::numeric_limits<Sum>::epsilon()));
}

} // namespace

TEST_CASE("matrix products are right for all shapes, transposes, factors and leading dimensions") {
  FOR_EACH_DEVICE(candidate) {
    auto context = open(candidate);
    for (const bool ta : {false, true})
      for (const bool tb : {false, true})
        for (const auto& [m, n, k] : {std::array<std::int64_t, 3>{1, 1, 1},
                                      {3, 5, 7},
                                      {64, 1, 33},
                                      {1, 200, 4},
                                      {130, 127, 65},
                                      {301, 200, 100}})
          for (const auto& [alpha, beta] : {std::pair{1.0, 0.0}, {-0.5, 2.0}})
            for (const std::int64_t pad : {0, 3}) {
              const Case c{m, n, k, ta, tb, alpha, beta, pad};
              INFO(
                  fmt::format("m={} n={} k={} ta={} tb={} alpha={} beta={} pad={}", m, n, k, ta, tb, alpha, beta, pad));
              CHECK(error_of<float>(context->stream(), c) < 8);
              CHECK(error_of<double>(context->stream(), c) < 8);
              CHECK(error_of<Float16>(context->stream(), c) < 8);
              CHECK(error_of<BFloat16>(context->stream(), c) < 8);
              CHECK(error_of<Float16, float>(context->stream(), c) < 8);
              CHECK(error_of<BFloat16, float>(context->stream(), c) < 8);
            }
  }
}

TEMPLATE_TEST_CASE("large products of 16-bit elements are right for all transposes", "", Float16, BFloat16) {
  FOR_EACH_DEVICE(candidate) {
    auto context = open(candidate);
    // A little more than what host devices compute at once, in columns and in k.
    for (const bool ta : {false, true})
      for (const bool tb : {false, true}) {
        const Case c{530, 520, 261, ta, tb, 1.0, 2.0, 3};
        INFO(fmt::format("ta={} tb={}", ta, tb));
        CHECK(error_of<TestType>(context->stream(), c) < 8);
        CHECK(error_of<TestType, float>(context->stream(), c) < 8);
      }
  }
}

TEMPLATE_TEST_CASE("products of 16-bit elements with a large k do not round the sums of its parts", "", Float16,
                   BFloat16) {
  FOR_EACH_DEVICE(candidate) {
    auto context = open(candidate);
    // So few elements in C, and so many in k, that a GPU is likely to divide k among its SMs. Sums rounded to 16 bits
    // before they are added would be wrong by more than what sums in f32 are.
    CHECK(error_of<TestType>(context->stream(), {64, 64, 16384, false, false, 1.0, 0.0, 0}) < 8);
  }
}

TEST_CASE("a product with beta 0 does not read what C held before") {
  FOR_EACH_DEVICE(candidate) {
    auto context = open(candidate);
    auto& stream = context->stream();
    auto a = stream.tensor_from(std::vector<float>{1, 2, 3, 4}, {2, 2});
    auto c = stream.tensor_from(std::vector<float>(4, std::nanf("")), {2, 2});
    REQUIRE(a);
    REQUIRE(c);
    REQUIRE(stream.gemm(*a, *a, *c));
    CHECK(*stream.to_host<float>(*c) == std::vector<float>{7, 10, 15, 22});
  }
}

TEMPLATE_TEST_CASE("the same product gives the same bits every time", "", float, Float16, BFloat16) {
  using T = TestType;
  FOR_EACH_DEVICE(candidate) {
    auto context = open(candidate);
    auto& stream = context->stream();
    constexpr std::int64_t n = 300;
    auto a = stream.tensor_from(values<T>(n * n, 4), {n, n});
    auto c = stream.tensor(dtype_of<T>, {n, n});
    REQUIRE(a);
    REQUIRE(c);
    REQUIRE(stream.gemm(*a, *a, *c, {false, true, 1.0, 0.0}));
    const auto first = *stream.to_host<T>(*c);
    for (int i = 0; i < 5; ++i) {
      REQUIRE(stream.gemm(*a, *a, *c, {false, true, 1.0, 0.0}));
      CHECK(*stream.to_host<T>(*c) == first);
    }
  }
}

TEST_CASE("products whose operands do not fit are refused with the shapes") {
  FOR_EACH_DEVICE(candidate) {
    auto context = open(candidate);
    auto& stream = context->stream();
    auto a = stream.tensor(DType::f32, {2, 3});
    auto b = stream.tensor(DType::f32, {4, 5});
    auto c = stream.tensor(DType::f32, {2, 5});
    auto d = stream.tensor(DType::f64, {3, 5});
    auto flat = stream.tensor(DType::f32, {6});
    auto whole = stream.tensor(DType::i32, {2, 2});
    REQUIRE(whole);
    const auto refused = stream.gemm(*a, *b, *c);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code() == Errc::invalid_argument);
    CHECK(refused.error().message()
          == "the shapes of a matrix product do not fit: a f32 [2, 3], b f32 [4, 5], c f32 [2, 5]");
    CHECK(stream.gemm(*a, *d, *c).error().code() == Errc::invalid_argument);
    CHECK(stream.gemm(*a, *flat, *c).error().code() == Errc::invalid_argument);
    CHECK(stream.gemm(*whole, *whole, *whole).error().code() == Errc::unsupported);
    Gemm raw{DType::f32, false, false, 2, 2, 2, 1.0, a->raw(), 1, b->raw(), 2, 0.0, c->raw(), 2};
    CHECK(stream.gemm(raw).error().code() == Errc::invalid_argument);
    raw.lda = 2;
    raw.k = 0;
    CHECK(stream.gemm(raw).error().code() == Errc::invalid_argument);
  }
}
