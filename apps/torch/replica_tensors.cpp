#include "replica_tensors.hpp"

#include <gpuactors/base/limits.hpp>

#include <apps/serve/cut_text.hpp>
#include <apps/serve/protocol/data_type.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <utility>

namespace torchscript {

using gpuactors::Errc;
using gpuactors::Result;
using serve::DataType;

namespace {

/// Inputs, or outputs, that serving.proto allows.
constexpr std::size_t most_tensors = 16;

constexpr auto torch_types = "BOOL, UINT8, INT8, INT16, INT32, INT64, FP16, BF16, FP32 or FP64";

/// Takes what comes before the first `separator`, or all, off the front of `text`; none once all was taken.
std::optional<std::string_view> take_part(std::optional<std::string_view>& text, char separator) {
  if (!text)
    return std::nullopt;
  const auto end = text->find(separator);
  const auto part = text->substr(0, end);
  text = end == std::string_view::npos ? std::nullopt : std::optional{text->substr(end + 1)};
  return part;
}

Result<std::vector<std::int64_t>> parse_shape(const std::string& what, std::string_view text, std::size_t element) {
  std::vector<std::int64_t> shape;
  auto bytes = element;
  std::optional rest{text};
  while (const auto part = take_part(rest, 'x')) {
    std::int64_t size = 0;
    const auto [end, error] = std::from_chars(part->data(), part->data() + part->size(), size);
    if (error != std::errc{} || end != part->data() + part->size() || size < 1)
      return gpuactors::fail(
          Errc::invalid_argument,
          fmt::format("{} has a dimension \"{}\": whole numbers from 1 on are expected, joined by x, "
                      "such as 3x224x224, without the number of rows",
                      what, serve::cut_text(*part, gpuactors::limits::name_length)));
    if (static_cast<std::uint64_t>(size) > gpuactors::limits::served_batch_bytes / bytes)
      return gpuactors::fail(Errc::invalid_argument, fmt::format("{} has rows of more than {} bytes, which do not fit "
                                                                 "into a batch",
                                                                 what, gpuactors::limits::served_batch_bytes));
    bytes *= static_cast<std::size_t>(size);
    shape.push_back(size);
  }
  if (shape.size() + 1 > gpuactors::limits::tensor_rank)
    return gpuactors::fail(Errc::invalid_argument, fmt::format("{} has rows of {} dimensions: at most {} are allowed",
                                                               what, shape.size(), gpuactors::limits::tensor_rank - 1));
  return shape;
}

Result<NamedRows> parse_tensor(std::string_view key, std::string_view text) {
  std::optional rest{text};
  NamedRows rows;
  rows.name = take_part(rest, ':').value_or("");
  if (rows.name.empty() || rows.name.size() > gpuactors::limits::name_length)
    return gpuactors::fail(
        Errc::invalid_argument,
        fmt::format("the setting {} has a tensor whose name has {} bytes: 1 to {} are allowed, as in "
                    "{}=x:FP32:3x224x224",
                    key, rows.name.size(), gpuactors::limits::name_length, key));
  const auto what = fmt::format("the setting {}: \"{}\"", key, rows.name);
  const auto type = take_part(rest, ':');
  if (!type)
    return rows;
  rows.type = serve::parse_data_type(*type);
  if (!rows.type || !is_torch_type(*rows.type))
    return gpuactors::fail(Errc::invalid_argument,
                           fmt::format("{} is of the datatype \"{}\": {} is expected", what,
                                       serve::cut_text(*type, gpuactors::limits::name_length), torch_types));
  if (const auto dimensions = take_part(rest, '\0')) {
    GPUACTORS_LET(shape, parse_shape(what, *dimensions, serve::element_bytes(*rows.type)));
    rows.row_shape = std::move(shape);
  }
  return rows;
}

} // namespace

std::size_t NamedRows::row_bytes() const noexcept {
  auto bytes = type ? serve::element_bytes(*type) : 0;
  for (const auto size : row_shape)
    bytes *= static_cast<std::size_t>(size);
  return bytes;
}

std::string to_string(const NamedRows& rows) {
  auto text = rows.name;
  if (rows.type)
    text += fmt::format(":{}", serve::to_string(*rows.type));
  if (!rows.row_shape.empty())
    text += fmt::format(":{}", fmt::join(rows.row_shape, "x"));
  return text;
}

bool is_torch_type(DataType type) noexcept {
  switch (type) {
  case DataType::uint16:
  case DataType::uint32:
  case DataType::uint64:
  case DataType::bytes:
    return false;
  default:
    return true;
  }
}

Result<std::vector<NamedRows>> parse_rows(std::string_view key, std::string_view text) {
  std::vector<NamedRows> result;
  std::optional rest{text};
  while (const auto part = take_part(rest, '+')) {
    if (result.size() == most_tensors)
      return gpuactors::fail(Errc::invalid_argument,
                             fmt::format("the setting {} has more than {} tensors", key, most_tensors));
    GPUACTORS_LET(rows, parse_tensor(key, *part));
    if (std::any_of(result.begin(), result.end(), [&](const auto& other) { return other.name == rows.name; }))
      return gpuactors::fail(Errc::invalid_argument,
                             fmt::format("the setting {} names \"{}\" twice: names are unique", key, rows.name));
    result.push_back(std::move(rows));
  }
  return result;
}

Result<std::vector<NamedRows>> parse_inputs(std::string_view text) {
  GPUACTORS_LET(inputs, parse_rows("inputs", text));
  for (const auto& input : inputs)
    if (!input.type)
      return gpuactors::fail(Errc::invalid_argument,
                             fmt::format("the setting inputs: \"{}\" has no datatype: a TorchScript file does not say "
                                         "it, so write NAME:DATATYPE:SHAPE of a row, such as {}:FP32:3x224x224",
                                         input.name, input.name));
  return std::move(inputs);
}

} // namespace torchscript
