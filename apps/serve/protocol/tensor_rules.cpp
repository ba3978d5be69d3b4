#include <gpuactors/base/limits.hpp>

#include <apps/serve/cut_text.hpp>
#include <apps/serve/protocol/data_type.hpp>
#include <apps/serve/protocol/tensor_rules.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <vector>

namespace serve {

using gpuactors::Errc;
using gpuactors::fail;
using gpuactors::Result;

namespace {

// More than fits into any request, and far from the end of 64 bits.
constexpr std::uint64_t most_elements = std::uint64_t{1} << 40;

Result<void> check_distinct(std::string_view kind, std::vector<std::string_view> names) {
  if (names.size() > most_tensors)
    return fail(Errc::invalid_argument,
                fmt::format("the request has {} {}s: at most {} are allowed", names.size(), kind, most_tensors));
  std::sort(names.begin(), names.end());
  if (!names.empty() && names.front().empty())
    return fail(Errc::invalid_argument, fmt::format("the request has an {} without a name", kind));
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end())
    return fail(Errc::invalid_argument, fmt::format("the request names {} \"{}\" twice", kind,
                                                    cut_text(*twice, gpuactors::limits::name_length)));
  return {};
}

Result<void> check_bytes_elements(std::string_view what, std::uint64_t count, std::span<const std::byte> data) {
  const auto size = data.size();
  for (std::uint64_t i = 0; i < count; ++i)
    if (!take_bytes_element(data))
      return fail(Errc::invalid_argument,
                  fmt::format("{} has {} bytes, which end within element {} of {}: each is its length in 4 bytes and "
                              "as many bytes",
                              what, size, i, count));
  if (!data.empty())
    return fail(Errc::invalid_argument,
                fmt::format("{} has {} bytes behind its {} elements", what, data.size(), count));
  return {};
}

} // namespace

std::string to_string(std::span<const std::int64_t> shape) {
  return fmt::format("[{}]", fmt::join(shape.begin(), shape.end(), ","));
}

std::string input_name(std::string_view name) {
  return fmt::format("input \"{}\"", cut_text(name, gpuactors::limits::name_length));
}

Result<std::uint64_t> count_elements(std::string_view what, std::span<const std::int64_t> shape) {
  if (shape.size() > gpuactors::limits::tensor_rank)
    return fail(Errc::invalid_argument, fmt::format("{} has {} dimensions: at most {} are allowed", what, shape.size(),
                                                    gpuactors::limits::tensor_rank));
  std::uint64_t count = 1;
  for (const auto size : shape) {
    if (size < 0)
      return fail(Errc::invalid_argument,
                  fmt::format("{} has the shape {}: no dimension may be negative", what, to_string(shape)));
    // A dimension of 0 makes the product 0, however large the others are: they are checked all the same.
    if (static_cast<std::uint64_t>(size) > most_elements / std::max<std::uint64_t>(count, 1))
      return fail(Errc::invalid_argument, fmt::format("{} has the shape {}: that is more than {} elements", what,
                                                      to_string(shape), most_elements));
    count *= static_cast<std::uint64_t>(size);
  }
  return count;
}

std::optional<std::span<const std::byte>> take_bytes_element(std::span<const std::byte>& data) noexcept {
  std::uint32_t length = 0;
  if (data.size() < sizeof length)
    return std::nullopt;
  std::memcpy(&length, data.data(), sizeof length);
  if (data.size() - sizeof length < length)
    return std::nullopt;
  const auto element = data.subspan(sizeof length, length);
  data = data.subspan(sizeof length + length);
  return element;
}

void append_bytes_element(std::string& data, std::string_view element) {
  const auto length = static_cast<std::uint32_t>(element.size());
  char prefix[sizeof length];
  std::memcpy(prefix, &length, sizeof length);
  data.append(prefix, sizeof length);
  data.append(element);
}

Result<void> check_tensor(std::string_view what, const NamedTensor& tensor) {
  GPUACTORS_LET(count, count_elements(what, tensor.shape));
  if (tensor.type == DataType::bytes)
    return check_bytes_elements(what, count, tensor.data.view());
  const auto expected = count * element_bytes(tensor.type);
  if (tensor.data.size() != expected)
    return fail(Errc::invalid_argument, fmt::format("{} has {} bytes: {} {} elements are {}", what, tensor.data.size(),
                                                    to_string(tensor.shape), to_string(tensor.type), expected));
  return {};
}

bool fits_shape(std::span<const std::int64_t> shape, std::span<const std::int64_t> described) noexcept {
  return std::equal(shape.begin(), shape.end(), described.begin(), described.end(),
                    [](auto size, auto expected) { return size >= 0 && (expected == -1 || size == expected); });
}

Result<void> check_id(std::string_view id) {
  if (id.size() > longest_id)
    return fail(Errc::invalid_argument,
                fmt::format("the request's id has {} bytes: it may have {}", id.size(), longest_id));
  return {};
}

Result<void> check_names(const InferRequest& request) {
  if (request.inputs.empty())
    return fail(Errc::invalid_argument, "the request has no inputs");
  std::vector<std::string_view> names;
  names.reserve(request.inputs.size());
  for (const auto& input : request.inputs)
    names.push_back(input.name);
  GPUACTORS_TRY(check_distinct("input", std::move(names)));
  return check_distinct("output", {request.outputs.begin(), request.outputs.end()});
}

} // namespace serve
