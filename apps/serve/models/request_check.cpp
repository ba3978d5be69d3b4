#include "request_check.hpp"

#include <gpuactors/base/limits.hpp>

#include <apps/serve/cut_text.hpp>

#include <fmt/format.h>

namespace serve {

using gpuactors::Errc;
using gpuactors::Result;

namespace {

template <class... Args>
gpuactors::Failure misfit(const ModelFacts& facts, fmt::format_string<Args...> format, Args&&... args) {
  return gpuactors::fail(Errc::invalid_argument,
                         fmt::format("model {} {}", facts.name, fmt::format(format, std::forward<Args>(args)...)));
}

} // namespace

const char* type_name(DataType type) noexcept {
  switch (type) {
  case DataType::boolean:
    return "BOOL";
  case DataType::uint8:
    return "UINT8";
  case DataType::uint16:
    return "UINT16";
  case DataType::uint32:
    return "UINT32";
  case DataType::uint64:
    return "UINT64";
  case DataType::int8:
    return "INT8";
  case DataType::int16:
    return "INT16";
  case DataType::int32:
    return "INT32";
  case DataType::int64:
    return "INT64";
  case DataType::fp16:
    return "FP16";
  case DataType::bf16:
    return "BF16";
  case DataType::fp32:
    return "FP32";
  case DataType::fp64:
    return "FP64";
  case DataType::bytes:
    return "BYTES";
  }
  return "unknown";
}

Result<std::uint64_t> check_request(const InferRequest& request, const ModelFacts& facts, std::uint64_t max_batch) {
  if (request.inputs.size() != 1)
    return misfit(facts, "has one input, \"{}\", and the request has {}", input_name, request.inputs.size());
  const auto& input = request.inputs.front();
  if (input.name != input_name)
    return misfit(facts, "has no input \"{}\": its input is \"{}\"",
                  cut_text(input.name, gpuactors::limits::name_length), input_name);
  if (input.type != facts.type)
    return misfit(facts, "takes \"{}\" as {}, not as {}", input_name, type_name(facts.type), type_name(input.type));
  if (input.shape.size() != 2 || input.shape[1] != facts.inputs)
    return misfit(facts, "takes \"{}\" in the shape [rows,{}], not [{}]", input_name, facts.inputs,
                  fmt::join(input.shape, ","));
  const auto rows = input.shape[0];
  if (rows < 1 || static_cast<std::uint64_t>(rows) > max_batch)
    return misfit(facts, "takes 1 to {} rows in a request, not {}", max_batch, rows);
  const auto expected = static_cast<std::size_t>(rows) * facts.row_in_bytes;
  if (input.data.size() != expected)
    return misfit(facts, "takes {} bytes for {} rows, and the request has {}", expected, rows, input.data.size());
  for (const auto& output : request.outputs)
    if (output != output_name)
      return misfit(facts, "has no output \"{}\": its output is \"{}\"",
                    cut_text(output, gpuactors::limits::name_length), output_name);
  if (request.timeout && *request.timeout <= gpuactors::Duration::zero())
    return misfit(facts, "cannot answer within a timeout of 0 or less");
  return static_cast<std::uint64_t>(rows);
}

} // namespace serve
