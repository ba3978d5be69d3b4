// What a client's connection may carry, as far as it shows before CAF has read a message. CAF itself believes its
// peers: it links actors, and ends them, for whoever says so, before the actor sees the message. Internal to the layer.
#pragma once

#include <gpuactors/wire/detail/basp.hpp>

#include <array>
#include <cstddef>
#include <string_view>

namespace gpuactors::detail {

/// Words of CAF itself, with which a client says who it is and which of its actors have ended, are short.
inline constexpr std::size_t longest_words = 16U << 10;

/// Returns why a message of a client is refused, from its header; empty if it is not.
///
/// Rights are those of the process that a message comes from (docs/design/0020). CAF believes who a message is from,
/// and takes one for its own process's that names nobody: so what clients send has to name its sender, after a
/// handshake that tells which process that is.
inline std::string_view why_refused(const LinkHeader& header, bool has_met) {
  if (header.is_to_name && header.payload > longest_words)
    return "a client's words are short";
  switch (header.kind) {
  case LinkKind::heartbeat:
    return {};
  case LinkKind::handshake:
    return header.payload > longest_words ? "a client's words are short" : std::string_view{};
  case LinkKind::news:
    if (header.payload > longest_words)
      return "a client's words are short";
    [[fallthrough]];
  case LinkKind::message:
    if (has_met)
      return {};
    [[fallthrough]];
  case LinkKind::anonymous:
  case LinkKind::other:
    break;
  }
  return "a client's messages have to come from itself, with a sender";
}

/// Whether a message for an actor holds nothing but messages of gpuactors, and texts beside those. CAF's own types may
/// hold others, and these in turn others, so deep that reading them takes all of a stack; and some are its orders.
///
/// Two messages have an actor: the one with which a client says hello, and the answer of its CAF to ours, which greets
/// each process on its own (an atom, a name, an actor and its name). It is one of the client's own process, or none:
/// for each other process that CAF hears of in passing, it keeps an actor and a route.
inline bool is_for_us(caf::actor_system& system, const caf::node_id& peer, const void* payload, std::size_t size) {
  enum class Kind { hello, ours, text, actor, atom, other };
  const auto kind_of = [](std::string_view name) {
    if (name.starts_with("gpuactors::"))
      return name == "gpuactors::v1::Hello" ? Kind::hello : Kind::ours;
    if (name == "@str" || name == "std::string")
      return Kind::text;
    if (name == "@strong_actor_ptr" || name == "caf::strong_actor_ptr")
      return Kind::actor;
    return name == "@atom" || name == "caf::ok_atom" ? Kind::atom : Kind::other;
  };
  constexpr std::array greeting = {Kind::hello, Kind::actor};
  constexpr std::array answer = {Kind::atom, Kind::text, Kind::actor, Kind::text};
  bool is_plain = true;
  bool is_greeting = true;
  bool is_answer = true;
  std::size_t count = 0;
  const auto values = caf_version::values_of(payload, size, [&](std::string_view name) {
    const auto kind = kind_of(name);
    is_plain = is_plain && (kind == Kind::hello || kind == Kind::ours || kind == Kind::text);
    is_greeting = is_greeting && count < greeting.size() && kind == greeting.at(count);
    is_answer = is_answer && count < answer.size() && kind == answer.at(count);
    ++count;
    return is_plain || is_greeting || is_answer;
  });
  if (!values || is_plain)
    return values.has_value();
  if (count != (is_greeting ? greeting.size() : answer.size()))
    return false;
  // What is in front of the actor: a message or a text, and an atom before that.
  ByteReader bytes{*values};
  bytes.take_text(is_answer ? caf_version::atom_bytes : 0);
  bytes.take_text(bytes.take_size());
  bytes.take_text(sizeof(caf::actor_id));
  if (bytes.is_short())
    return false;
  const auto node = caf_version::ends_of(system, false, bytes.rest().data(), bytes.rest().size()).first;
  return !node || node == peer;
}

} // namespace gpuactors::detail
