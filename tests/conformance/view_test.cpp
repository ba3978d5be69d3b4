// Tensors in the memory of others: rows and other shapes, the same on every device.
#include <gpuactors/device/shared_memory.hpp>
#include <gpuactors/kernels/elementwise.hpp>

#include <conformance/candidates.hpp>

#include <numeric>
#include <string>

using namespace gpuactors;
using namespace gpuactors::conformance;

namespace {

/// 0, 1, 2, ...
std::vector<float> counted(std::size_t count) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), 0.0F);
  return values;
}

Tensor counted_matrix(Stream& stream, std::int64_t rows, std::int64_t columns) {
  auto tensor = stream.tensor_from(counted(static_cast<std::size_t>(rows * columns)), {rows, columns});
  REQUIRE(tensor);
  return std::move(*tensor);
}

Errc error_of(const Result<Tensor>& result) {
  return result ? Errc::none : result.error().code();
}

} // namespace

TEST_CASE("rows of a tensor are a tensor in its memory, and count once") {
  FOR_EACH_DEVICE(candidate) {
    auto context = open(candidate);
    auto& stream = context->stream();
    const auto x = counted_matrix(stream, 6, 3);
    const auto used = context->memory_used();
    auto part = x.rows(2, 3);
    REQUIRE(part);
    CHECK(part->shape() == std::vector<std::int64_t>{3, 3});
    CHECK(part->bytes() == 9 * sizeof(float));
    CHECK(part->data<float>() == x.data<float>() + 6);
    CHECK(context->memory_used() == used);
    CHECK(*stream.to_host<float>(*part) == std::vector<float>{6, 7, 8, 9, 10, 11, 12, 13, 14});
    // Rows of rows count from the begin of those.
    const auto last = part->rows(2, 1);
    REQUIRE(last);
    CHECK(*stream.to_host<float>(*last) == std::vector<float>{12, 13, 14});
  }
}

TEST_CASE("what writes to rows writes to the tensor, and to nothing else of it") {
  FOR_EACH_DEVICE(candidate) {
    auto context = open(candidate);
    auto& stream = context->stream();
    const auto x = counted_matrix(stream, 4, 2);
    auto first = x.rows(0, 1);
    auto second = x.rows(1, 1);
    auto third = x.rows(2, 1);
    REQUIRE((first && second && third));
    REQUIRE(stream.zero(*first));
    const std::vector<float> values{20, 30};
    REQUIRE(stream.upload(*second, values));
    REQUIRE(stream.launch(kernels::axpy<float>(), 2, 10.0F, *second, *third));
    REQUIRE(stream.synchronize());
    CHECK(*stream.to_host<float>(x) == std::vector<float>{0, 0, 20, 30, 204, 305, 6, 7});
  }
}

TEST_CASE("a tensor has other shapes with as many elements") {
  FOR_EACH_DEVICE(candidate) {
    auto context = open(candidate);
    auto& stream = context->stream();
    const auto x = counted_matrix(stream, 2, 6);
    const auto y = x.reshaped({3, 4});
    REQUIRE(y);
    CHECK(y->raw() == x.raw());
    CHECK(*stream.to_host<float>(*y) == counted(12));
    const auto middle = y->rows(1, 1);
    REQUIRE(middle);
    const auto flat = middle->reshaped({4});
    REQUIRE(flat);
    CHECK(*stream.to_host<float>(*flat) == std::vector<float>{4, 5, 6, 7});
    const auto refused = x.reshaped({5});
    REQUIRE(error_of(refused) == Errc::invalid_argument);
    CHECK(refused.error().message()
          == "a tensor of shape [2, 6] cannot have the shape [5]: it has 12 elements, and not 5");
    CHECK(error_of(x.reshaped({})) == Errc::invalid_argument);
    CHECK(error_of(x.reshaped({-3, -4})) == Errc::invalid_argument);
  }
}

TEST_CASE("rows that a tensor does not have are refused with its shape") {
  FOR_EACH_DEVICE(candidate) {
    auto context = open(candidate);
    const auto x = counted_matrix(context->stream(), 4, 2);
    for (const auto& [first, count] :
         {std::pair<std::int64_t, std::int64_t>{-1, 1}, {0, 0}, {0, -1}, {0, 5}, {4, 1}, {2, 3}, {1, INT64_MAX}}) {
      CAPTURE(first, count);
      CHECK(error_of(x.rows(first, count)) == Errc::invalid_argument);
    }
    CHECK(x.rows(2, 3).error().message()
          == "3 rows from row 2 on were asked for, of a tensor of shape [4, 2]: rows 0 to 3 are there");
    CHECK(error_of(Tensor{}.rows(0, 1)) == Errc::invalid_argument);
    CHECK(error_of(Tensor{}.reshaped({1})) == Errc::invalid_argument);
  }
}

TEST_CASE("the memory lives as long as one of its tensors") {
  FOR_EACH_DEVICE(candidate) {
    auto context = open(candidate);
    auto& stream = context->stream();
    Tensor part;
    {
      const auto x = counted_matrix(stream, 1'000, 8);
      auto rows = x.rows(999, 1);
      REQUIRE(rows);
      part = std::move(*rows);
    }
    CHECK(context->memory_used() >= 8'000 * sizeof(float));
    CHECK(stream.to_host<float>(part)->back() == 7'999);
    part = {};
    CHECK(context->memory_used() == 0);
  }
}

TEST_CASE("rows are gone with the memory that a context takes back, and so are rows of those") {
  FOR_EACH_DEVICE(candidate) {
    auto context = open(candidate);
    const auto x = counted_matrix(context->stream(), 4, 2);
    auto part = x.rows(1, 2);
    REQUIRE(part);
    context.reset();
    CHECK_FALSE(*part);
    CHECK(part->raw() == nullptr);
    CHECK(error_of(part->rows(0, 1)) == Errc::lease_expired);
    CHECK(error_of(x.reshaped({8})) == Errc::lease_expired);
  }
}

TEST_CASE("rows are read by others like a whole tensor") {
  FOR_EACH_DEVICE(candidate) {
    auto context = open(candidate);
    auto& stream = context->stream();
    const std::vector<float> wanted{2, 3, 4, 5};
    const auto x = counted_matrix(stream, 4, 2);
    const auto part = x.rows(1, 2);
    REQUIRE(part);
    const auto pinned = part->pinned();
    CHECK(*stream.to_host<float>(pinned) == wanted);
    const auto held = part->pinned(stream);
    REQUIRE(held);
    CHECK(*stream.to_host<float>(*held) == wanted);
    // Other processes open whole memory: the rows are copied into some of their own.
    const auto shareable = part->shareable(stream, {});
    if (!shareable) {
      CHECK(error_of(shareable) == Errc::unsupported);
      continue;
    }
    CHECK(*stream.to_host<float>(*shareable) == wanted);
    CHECK(shareable->shared_memory() != nullptr);
    const auto half = shareable->rows(1, 1);
    REQUIRE(half);
    CHECK(half->shared_memory() == nullptr);
    CHECK(*stream.to_host<float>(*half) == std::vector<float>{4, 5});
  }
}

TEST_CASE("products take rows") {
  FOR_EACH_DEVICE(candidate) {
    auto context = open(candidate);
    auto& stream = context->stream();
    const auto x = counted_matrix(stream, 4, 2);
    const auto unit = stream.tensor_from(std::vector<float>{1, 0, 0, 1}, {2, 2});
    const auto y = stream.tensor(DType::f32, {4, 2});
    REQUIRE((unit && y));
    REQUIRE(stream.fill_bytes(y->raw(), 0, y->bytes()));
    const auto from = x.rows(1, 2);
    auto to = y->rows(2, 2);
    REQUIRE((from && to));
    REQUIRE(stream.gemm(*from, *unit, *to));
    CHECK(*stream.to_host<float>(*y) == std::vector<float>{0, 0, 0, 0, 2, 3, 4, 5});
  }
}

TEST_CASE("tensors are filled and copied by their bytes, and other numbers of bytes are refused") {
  FOR_EACH_DEVICE(candidate) {
    auto context = open(candidate);
    auto& stream = context->stream();
    auto x = stream.tensor(DType::i32, {2, 2});
    REQUIRE(x);
    const std::string bytes{"\1\0\0\0\2\0\0\0\3\0\0\0\4\0\0\0", 16};
    REQUIRE(stream.upload_bytes(*x, bytes));
    CHECK(*stream.to_host<std::int32_t>(*x) == std::vector<std::int32_t>{1, 2, 3, 4});
    std::string back(16, '\0');
    REQUIRE(stream.download_bytes(back, *x));
    REQUIRE(stream.synchronize());
    CHECK(back == bytes);
    const auto short_by_one = stream.upload_bytes(*x, std::string_view{bytes}.substr(1));
    REQUIRE_FALSE(short_by_one);
    CHECK(short_by_one.error().message() == "15 B are given for a tensor of i32 [2, 2], which has 16 B");
    std::vector<std::byte> more(17);
    CHECK(stream.download_bytes(more, *x).error().code() == Errc::invalid_argument);
    Tensor none;
    CHECK(stream.upload_bytes(none, bytes).error().code() == Errc::invalid_argument);
  }
}
