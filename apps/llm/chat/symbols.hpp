// The names of a scope while it is analysed.
#pragma once

#include <apps/llm/chat/syntax.hpp>

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace llm::chat {

/// A function under analysis: the slots of its variables. Scopes beside each other share slots, as they share
/// variables in the functions that Jinja makes.
struct FrameSymbols {
  FrameSymbols* around = nullptr;
  std::map<std::pair<int, std::string>, std::size_t> slots;
  bool is_kept = false;

  std::size_t slot(int level, const std::string& name) {
    return slots.try_emplace({level, name}, slots.size()).first->second;
  }
};

/// A scope under analysis.
class Symbols {
public:
  Symbols(FrameSymbols& frame, Symbols* around)
    : frame_(&frame), around_(around), level_(around == nullptr ? 0 : around->level_ + 1) {
    // nop
  }

  /// A name is read, set, or given a value from outside where the scope begins.
  void load(const std::string& name);
  void store(const std::string& name);
  void declare(const std::string& name);

  /// Between these, names are set in one of several ways, or in none of them.
  [[nodiscard]] std::size_t begin_branches() const {
    return stored_.size();
  }
  void end_branches(std::size_t begin);

  /// Where the variable is, seen from this scope; null if nothing in this scope or around it has the name.
  [[nodiscard]] std::optional<Place> find(const std::string& name) const;

  /// Whether the name means one of the variables that the template is rendered with, or a function.
  [[nodiscard]] bool is_from_outside(const std::string& name) const;

  [[nodiscard]] Scope scope() const;

  [[nodiscard]] FrameSymbols& frame() const {
    return *frame_;
  }

private:
  void define(const std::string& name, Load load);
  /// A load for a name that is set here: from the scope around, or `otherwise`.
  [[nodiscard]] Load load_around(const std::string& name, Load::Kind otherwise) const;

  FrameSymbols* frame_;
  Symbols* around_;
  int level_;
  std::map<std::string, Load> loads_;
  std::set<std::string> stores_;
  /// The same in the order in which they came.
  std::vector<std::string> stored_;
};

} // namespace llm::chat
