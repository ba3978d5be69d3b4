#include <apps/serve/http/body_buffer.hpp>
#include <apps/serve/protocol/infer_request.hpp>

#include <algorithm>
#include <cstring>
#include <utility>

namespace serve {

namespace {

constexpr std::size_t first_capacity = 4U << 10;
// What is announced is believed so far.
constexpr std::size_t believed_capacity = 1U << 20;

} // namespace

/// What keeps the bytes of a body.
struct BodyBuffer::Kept {
  Memory memory;
  HeldShare share;
};

BodyBuffer::Growth BodyBuffer::expect(std::size_t total) {
  if (total > most_)
    return Growth::too_large;
  most_ = total;
  return resize(std::min(total, believed_capacity));
}

BodyBuffer::Growth BodyBuffer::reserve(std::size_t bytes) {
  if (bytes > most_ - size_)
    return Growth::too_large;
  const auto needed = size_ + bytes;
  if (!share_.grow_to(needed))
    return Growth::no_room;
  if (needed <= capacity_)
    return Growth::done;
  return resize(std::min(most_, std::max({needed, capacity_ * 2, first_capacity})));
}

BodyBuffer::Growth BodyBuffer::append(std::span<const std::byte> bytes) {
  if (bytes.empty())
    return Growth::done;
  if (const auto growth = reserve(bytes.size()); growth != Growth::done)
    return growth;
  std::memcpy(memory_.get() + size_, bytes.data(), bytes.size());
  size_ += bytes.size();
  return Growth::done;
}

BodyBuffer::Growth BodyBuffer::resize(std::size_t capacity) {
  auto* memory = static_cast<std::byte*>(std::realloc(memory_.get(), capacity + body_padding));
  if (memory == nullptr)
    return Growth::no_room;
  static_cast<void>(memory_.release());
  memory_.reset(memory);
  capacity_ = capacity;
  return Growth::done;
}

Bytes BodyBuffer::take() && {
  if (!memory_)
    return {};
  std::memset(memory_.get() + size_, 0, body_padding);
  auto kept = std::make_shared<Kept>(Kept{std::move(memory_), std::move(share_)});
  const std::span<const std::byte> view{kept->memory.get(), size_};
  return {std::move(kept), view};
}

} // namespace serve
