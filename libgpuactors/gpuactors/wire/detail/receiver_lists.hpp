// ReceiverLists: finds the open requests to one receiver without a look at all the others.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace gpuactors::detail {

/// What is listed derives from this, and stays where it is as long as it is listed.
struct ReceiverLink {
  ReceiverLink* next = nullptr;
  /// The pointer to this one; null: it is in no list.
  ReceiverLink** from = nullptr;
};

/// Lists of requests by their receivers. A list is for all receivers with one hash, so that a request costs a few
/// instructions and no memory of its own: with a table of exact lists, a caller with one call at a time would make a
/// list and remove it with each call. Of n requests in all, about n / 256 of others are looked at beside those to a
/// receiver.
class ReceiverLists {
public:
  /// Lists the request of `link`, which is in no list.
  void add(const void* receiver, ReceiverLink& link) noexcept {
    auto*& first = lists_[hash_of(receiver)];
    link.next = first;
    link.from = &first;
    if (first != nullptr)
      first->from = &link.next;
    first = &link;
  }

  /// No effect on what is in no list.
  static void remove(ReceiverLink& link) noexcept {
    if (link.from == nullptr)
      return;
    *link.from = link.next;
    if (link.next != nullptr)
      link.next->from = link.from;
    link.from = nullptr;
  }

  /// Calls `function` with each link that may be of a request to `receiver`: with all that are, and some that are not.
  template <class F>
  void each(const void* receiver, F function) const {
    for (auto* link = lists_[hash_of(receiver)]; link != nullptr; link = link->next)
      function(*link);
  }

  /// Forgets all links, which are not used again.
  void clear() noexcept {
    lists_.fill(nullptr);
  }

private:
  static constexpr unsigned hash_bits = 8;

  static std::size_t hash_of(const void* receiver) noexcept {
    // By the address, and not by the number that CAF gives an actor: processes that are alike have actors of the same
    // number. The factor mixes all bits of the address into the upper ones.
    constexpr std::uint64_t factor = 0x9E37'79B9'7F4A'7C15;
    return static_cast<std::size_t>(reinterpret_cast<std::uintptr_t>(receiver) * factor >> (64 - hash_bits));
  }

  std::array<ReceiverLink*, std::size_t{1} << hash_bits> lists_{};
};

} // namespace gpuactors::detail
