// Allocation, quota, copies and fills, the same on every device.
#include <gpuactors/base/units.hpp>

#include <conformance/candidates.hpp>

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>

using namespace gpuactors;
using namespace gpuactors::conformance;

TEST_CASE("memory that is allocated is counted, aligned and given back") {
  FOR_EACH_DEVICE(candidate) {
    auto context = open(candidate);
    for (const std::size_t bytes : {std::size_t{1}, std::size_t{255}, std::size_t{4096}, std::size_t{5} << 20}) {
      auto buffer = context->stream().allocate(bytes);
      REQUIRE(buffer);
      CHECK(buffer->bytes() == bytes);
      CHECK(reinterpret_cast<std::uintptr_t>(buffer->data()) % 256 == 0);
      CHECK(context->memory_used() >= bytes);
    }
    CHECK(context->memory_used() == 0);
    CHECK(context->memory_peak() >= std::size_t{5} << 20);
  }
}

TEST_CASE("an allocation of nothing, or of more than there can be, is refused in words") {
  FOR_EACH_DEVICE(candidate) {
    auto context = open(candidate);
    const auto none = context->stream().allocate(0);
    REQUIRE_FALSE(none);
    CHECK(none.error().code() == Errc::invalid_argument);
    const auto all = context->stream().allocate(SIZE_MAX);
    REQUIRE_FALSE(all);
    CHECK((all.error().code() == Errc::invalid_argument || all.error().code() == Errc::out_of_memory));
    CHECK(context->memory_used() == 0);
  }
}

TEST_CASE("an allocation beyond the limit names asked, used and limit, and what was there stays") {
  FOR_EACH_DEVICE(candidate) {
    auto context = open(candidate, test_memory, "actor trainer");
    auto kept = context->stream().tensor_from(std::vector<float>{1, 2, 3}, {3});
    REQUIRE(kept);
    const auto used = context->memory_used();
    const auto refused = context->stream().allocate(test_memory);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code() == Errc::out_of_memory);
    const auto& text = refused.error().message();
    INFO(text);
    CHECK(text.find("actor trainer") != std::string::npos);
    CHECK(text.find(std::to_string(test_memory) + " B") != std::string::npos);
    CHECK(text.find(std::to_string(used) + " B used") != std::string::npos);
    CHECK(text.find("limit") != std::string::npos);
    CHECK(context->memory_used() == used);
    CHECK(*context->stream().to_host<float>(*kept) == std::vector<float>{1, 2, 3});
  }
}

TEST_CASE("a context that hits its limit does not disturb its neighbour") {
  FOR_EACH_DEVICE(candidate) {
    auto greedy = open(candidate);
    auto neighbour = open(candidate);
    auto kept = neighbour->stream().tensor_from(values<float>(1000, 1), {1000});
    REQUIRE(kept);
    std::vector<Buffer> hoard;
    for (;;) {
      auto buffer = greedy->stream().allocate(std::size_t{4} << 20);
      if (!buffer)
        break;
      hoard.push_back(std::move(*buffer));
    }
    CHECK(hoard.size() >= 8);
    CHECK(greedy->memory_used() <= greedy->memory_limit());
    auto more = neighbour->stream().tensor_from(values<float>(1000, 2), {1000});
    REQUIRE(more);
    CHECK(*neighbour->stream().to_host<float>(*kept) == values<float>(1000, 1));
    hoard.clear();
    CHECK(greedy->stream().allocate(std::size_t{4} << 20));
  }
}

TEST_CASE("contexts inside one lease stay below its limit together") {
  FOR_EACH_DEVICE(candidate) {
    auto parent = open(candidate, test_memory, "lease");
    const auto open_child = [&] {
      return Context::open(candidate.device, {Share{Share::one / 4}, test_memory, "child", parent->quota()});
    };
    auto first = open_child();
    auto second = open_child();
    REQUIRE(first);
    REQUIRE(second);
    auto most = (*first)->stream().allocate(test_memory / 4 * 3);
    REQUIRE(most);
    CHECK(parent->memory_used() >= test_memory / 4 * 3);
    const auto refused = (*second)->stream().allocate(test_memory / 2);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().message().find("child: lease cannot give ") == 0);
    CHECK((*second)->memory_used() == 0);
    first->reset();
    CHECK(parent->memory_used() == 0);
    CHECK((*second)->stream().allocate(test_memory / 2));
  }
}

TEST_CASE("memory that is freed in stream order can be allocated again at once") {
  FOR_EACH_DEVICE(candidate) {
    auto context = open(candidate);
    for (int i = 0; i < 50; ++i) {
      auto buffer = context->stream().allocate(test_memory / 2);
      REQUIRE(buffer);
      REQUIRE(context->stream().fill_bytes(buffer->data(), 1, buffer->bytes()));
    }
    CHECK(context->stream().synchronize());
    CHECK(context->memory_peak() <= test_memory);
  }
}

TEST_CASE("bytes come back as they were sent, through any chain of copies") {
  FOR_EACH_DEVICE(candidate) {
    auto context = open(candidate);
    auto& stream = context->stream();
    for (const std::size_t count : {std::size_t{1}, std::size_t{1000}, std::size_t{300'001}}) {
      const auto sent = values<double>(count, count);
      auto first = stream.tensor_from(sent, {static_cast<std::int64_t>(count)});
      auto second = stream.tensor(DType::f64, {static_cast<std::int64_t>(count)});
      REQUIRE(first);
      REQUIRE(second);
      REQUIRE(stream.copy(*second, *first));
      CHECK(*stream.to_host<double>(*second) == sent);
    }
  }
}

TEST_CASE("a fill sets exactly its bytes") {
  FOR_EACH_DEVICE(candidate) {
    auto context = open(candidate);
    auto& stream = context->stream();
    auto tensor = stream.tensor_from(std::vector<std::uint8_t>(1000, 7), {1000});
    REQUIRE(tensor);
    REQUIRE(stream.fill_bytes(tensor->data<std::uint8_t>() + 100, 9, 801));
    const auto bytes = stream.to_host<std::uint8_t>(*tensor);
    REQUIRE(bytes);
    for (std::size_t i = 0; i < 1000; ++i)
      REQUIRE((*bytes)[i] == (i >= 100 && i < 901 ? 9 : 7));
  }
}

TEST_CASE("transfers that cannot be meant are refused") {
  FOR_EACH_DEVICE(candidate) {
    auto context = open(candidate);
    auto& stream = context->stream();
    auto tensor = stream.tensor(DType::f32, {4});
    REQUIRE(tensor);
    std::array<float, 4> host{};
    const auto bad = [](const Result<void>& result) {
      return !result && result.error().code() == Errc::invalid_argument;
    };
    CHECK(bad(stream.upload(tensor->raw(), host.data(), 0)));
    CHECK(bad(stream.upload(nullptr, host.data(), 4)));
    CHECK(bad(stream.download(host.data(), nullptr, 4)));
    CHECK(bad(stream.fill_bytes(nullptr, 0, 4)));
    CHECK(bad(stream.fill_bytes(tensor->raw(), 0, 0)));
    auto other = stream.tensor(DType::f32, {5});
    REQUIRE(other);
    CHECK(bad(stream.copy(*tensor, *other)));
    CHECK(stream.to_host<double>(*tensor).error().code() == Errc::invalid_argument);
    CHECK(stream.tensor_from(std::vector<float>{1, 2}, {3}).error().code() == Errc::invalid_argument);
  }
}

TEST_CASE("shapes that cannot be are refused with the shape") {
  FOR_EACH_DEVICE(candidate) {
    auto context = open(candidate);
    using Shape = std::vector<std::int64_t>;
    for (const auto& shape :
         {Shape{}, Shape{0}, Shape{3, -1}, Shape(9, 1), Shape{INT64_MAX, 2}, Shape{1LL << 31, 1LL << 31, 1}}) {
      const auto tensor = context->stream().tensor(DType::f64, shape);
      REQUIRE_FALSE(tensor);
      CHECK(tensor.error().code() == Errc::invalid_argument);
    }
    CHECK(context->stream().tensor(DType::f64, {0, 3}).error().message() == "the shape [0, 3] has a dimension below 1");
    const auto large = context->stream().tensor(DType::f32, {1LL << 40});
    REQUIRE_FALSE(large);
    CHECK(large.error().code() == Errc::out_of_memory);
  }
}

TEST_CASE("a device reports its memory") {
  FOR_EACH_DEVICE(candidate) {
    auto context = open(candidate);
    const auto memory = candidate.device->memory();
    REQUIRE(memory);
    CHECK(memory->total_bytes > 0);
    CHECK(memory->free_bytes <= memory->total_bytes);
  }
}

TEST_CASE("a tensor moves into memory that processes share, or is refused by a device that has none") {
  FOR_EACH_DEVICE(candidate) {
    const auto context = open(candidate);
    auto& stream = context->stream();
    const auto tensor = stream.tensor_from(std::vector<float>{1, 2, 3});
    REQUIRE(tensor);
    // By that, who fetches a tensor decides whether to ask for its memory.
    CHECK(candidate.device->is_open() == (candidate.device->info().kind == DeviceKind::cuda));
    const auto before = context->memory_used();
    const auto footprint = candidate.device->shared_footprint(tensor->bytes());
    const auto shared = tensor->shareable(stream, {});
    REQUIRE(shared.has_value() == footprint.has_value());
    if (shared) {
      CHECK(*stream.to_host<float>(*shared) == std::vector<float>{1, 2, 3});
      REQUIRE(shared->shared_memory() != nullptr);
      CHECK(shared->shared_memory()->descriptor() >= 0);
      CHECK(shared->shared_memory()->footprint() == *footprint);
      CHECK(context->memory_used() == before + *footprint);
    } else {
      CHECK(shared.error().code() == Errc::unsupported);
      CHECK(context->memory_used() == before);
    }
  }
}

TEST_CASE("copies and products of a tensor whose memory was taken back say that, and do nothing") {
  FOR_EACH_DEVICE(candidate) {
    const auto context = open(candidate);
    auto& stream = context->stream();
    auto gone = stream.tensor_from(std::vector<float>(4, 1.0F), {2, 2});
    REQUIRE(gone);
    REQUIRE(context->reclaim());
    auto kept = stream.tensor_from(std::vector<float>(4, 2.0F), {2, 2});
    REQUIRE(kept);
    const Error expected{Errc::lease_expired, "the memory of this tensor was reclaimed"};
    CHECK(stream.copy(*gone, *kept).error() == expected);
    CHECK(stream.copy(*kept, *gone).error() == expected);
    CHECK(stream.gemm(*gone, *kept, *kept).error() == expected);
    CHECK(stream.gemm(*kept, *gone, *kept).error() == expected);
    CHECK(stream.gemm(*kept, *kept, *gone).error() == expected);
    CHECK(*stream.to_host<float>(*kept) == std::vector<float>(4, 2.0F));
  }
}

TEST_CASE("tensors are filled and copied by their elements, and other numbers or types are refused") {
  FOR_EACH_DEVICE(candidate) {
    auto context = open(candidate);
    auto& stream = context->stream();
    auto x = stream.tensor(DType::i32, {2, 2});
    REQUIRE(x);
    REQUIRE(stream.fill_bytes(*x, 1));
    CHECK(*stream.to_host<std::int32_t>(*x) == std::vector<std::int32_t>(4, 0x01010101));

    auto staging = context->host_buffer(6 * sizeof(std::int32_t));
    REQUIRE(staging);
    const auto room = staging->span<std::int32_t>();
    REQUIRE(room.size() == 6);
    const auto four = room.first(4);
    std::iota(room.begin(), room.end(), 10);
    REQUIRE(stream.upload(*x, four));
    REQUIRE(stream.synchronize());
    std::ranges::fill(room, 0);
    REQUIRE(stream.download(four, *x));
    REQUIRE(stream.synchronize());
    CHECK(std::vector<std::int32_t>(room.begin(), room.end()) == std::vector<std::int32_t>{10, 11, 12, 13, 0, 0});

    const auto too_many = stream.upload(*x, room);
    REQUIRE_FALSE(too_many);
    CHECK(too_many.error().message() == "6 values are given for a tensor of shape [2, 2], which has 4");
    std::vector<float> other(4);
    CHECK(stream.download(other, *x).error().message() == "the tensor holds i32, not f32");
    REQUIRE(context->reclaim());
    CHECK(stream.upload(*x, four).error().code() == Errc::lease_expired);
    CHECK(stream.zero(*x).error().code() == Errc::lease_expired);
    Tensor none;
    CHECK(stream.zero(none).error().code() == Errc::invalid_argument);
  }
}
