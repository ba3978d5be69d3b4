#include <apps/serve/protocol/front_state.hpp>
#include <apps/serve/protocol/joined_reply.hpp>
#include <apps/serve/protocol/tensor_rules.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string_view>
#include <utility>

namespace serve {

using gpuactors::Errc;
using gpuactors::fail;
using gpuactors::Result;

namespace {

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

} // namespace

bool JoinedReply::is_text(const NamedTensor& output) {
  return output.type == DataType::bytes
         && std::all_of(output.shape.begin(), output.shape.end(), [](auto size) { return size == 1; });
}

std::ptrdiff_t JoinedReply::growing_axis(const Output& output) const {
  const auto spec = std::find_if(described_.begin(), described_.end(),
                                 [&](const auto& described) { return described.name == output.first.name; });
  if (spec == described_.end() || std::count(spec->shape.begin(), spec->shape.end(), -1) != 1)
    return -1;
  const auto open = std::find(spec->shape.begin(), spec->shape.end(), -1);
  // What lies before it would have to be interleaved.
  const auto outermost = std::all_of(spec->shape.begin(), open, [](auto size) { return size == 1; });
  return outermost ? open - spec->shape.begin() : -1;
}

Result<void> JoinedReply::join(Output& output, const NamedTensor& more) {
  const auto axis = growing_axis(output);
  if (axis < 0 && (!is_text(output.first) || !is_text(more)))
    return fail(Errc::unsupported,
                fmt::format("output \"{}\" comes several times, in a way that does not make one: ask "
                            "for the stream, at /generate_stream",
                            more.name));
  const auto own_bytes = [axis](const NamedTensor& tensor) {
    auto data = tensor.data.view();
    return text_of(axis < 0 ? take_bytes_element(data).value_or(data) : data);
  };
  if (output.count++ == 1)
    output.all = own_bytes(output.first);
  output.all += own_bytes(more);
  if (axis >= 0)
    output.first.shape[static_cast<std::size_t>(axis)] += more.shape[static_cast<std::size_t>(axis)];
  return {};
}

Result<void> JoinedReply::add(const InferReply& reply) {
  head_.model = reply.model;
  head_.version = reply.version;
  head_.id = reply.id;
  for (const auto& more : reply.outputs) {
    bytes_ += more.data.size();
    if (bytes_ > most_)
      return fail(Errc::unsupported,
                  fmt::format("the whole answer has more than the {} bytes that are allowed: ask for "
                              "the stream, at /generate_stream",
                              most_));
    if (!share_.grow_to(bytes_))
      return fail(Errc::no_capacity, std::string{held_too_much});
    const auto known = std::find_if(outputs_.begin(), outputs_.end(),
                                    [&](const auto& output) { return output.first.name == more.name; });
    if (known == outputs_.end()) {
      outputs_.push_back({more, 1, {}});
    } else {
      GPUACTORS_TRY(join(*known, more));
    }
  }
  return {};
}

InferReply JoinedReply::take() && {
  for (auto& output : outputs_) {
    if (output.count > 1 && growing_axis(output) < 0) {
      std::string element;
      append_bytes_element(element, output.all);
      output.first.data = Bytes::of(std::move(element));
    } else if (output.count > 1) {
      output.first.data = Bytes::of(std::move(output.all));
    }
    head_.outputs.push_back(std::move(output.first));
  }
  return std::move(head_);
}

} // namespace serve
