// ActorName: the name by which programs find an actor.
#pragma once

#include <string>
#include <string_view>

namespace gpuactors {

/// The name of an actor and its name space, in which the name is unique, as given by `Options::name` and
/// `Options::name_space`: `cluster.find("ranker")`, `cluster.kill({"ranker", "team-a"})`. It refers to its strings,
/// which must outlive the call that takes it.
struct ActorName {
  ActorName(const char* name_of_actor) : name(name_of_actor) { // NOLINT(google-explicit-constructor)
    // nop
  }

  ActorName(const std::string& name_of_actor) : name(name_of_actor) { // NOLINT(google-explicit-constructor)
    // nop
  }

  ActorName(std::string_view name_of_actor, std::string_view its_name_space = {}) // NOLINT(google-explicit-constructor)
    : name(name_of_actor), name_space(its_name_space) {
    // nop
  }

  std::string_view name;
  std::string_view name_space{};

  /// Returns the name for people, with its name space in front if it has one.
  [[nodiscard]] friend std::string to_string(const ActorName& actor) {
    std::string text{actor.name_space};
    if (!text.empty())
      text += '/';
    return text.append(actor.name);
  }
};

} // namespace gpuactors
