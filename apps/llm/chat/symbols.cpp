// Jinja's rules for the names of a scope.
#include <apps/llm/chat/symbols.hpp>

namespace llm::chat {

void Symbols::define(const std::string& name, Load load) {
  load.slot = frame_->slot(level_, name);
  loads_[name] = std::move(load);
}

void Symbols::load(const std::string& name) {
  if (!find(name))
    define(name, Load{Load::Kind::look_up, 0, name, {}});
}

void Symbols::store(const std::string& name) {
  if (stores_.insert(name).second)
    stored_.push_back(name);
  if (loads_.count(name) == 0)
    define(name, load_around(name, Load::Kind::miss));
}

void Symbols::declare(const std::string& name) {
  if (stores_.insert(name).second)
    stored_.push_back(name);
  define(name, Load{Load::Kind::parameter, 0, name, {}});
}

void Symbols::end_branches(std::size_t begin) {
  // In a branch that sets nothing the name keeps the meaning that it has around.
  for (auto i = begin; i < stored_.size(); ++i)
    define(stored_[i], load_around(stored_[i], Load::Kind::look_up));
}

Load Symbols::load_around(const std::string& name, Load::Kind otherwise) const {
  const auto around = around_ == nullptr ? std::nullopt : around_->find(name);
  if (!around)
    return {otherwise, 0, name, {}};
  const bool is_other_function = around_->frame_ != frame_;
  return {Load::Kind::copy, 0, name, {around->functions_up + (is_other_function ? 1 : 0), around->slot}};
}

std::optional<Place> Symbols::find(const std::string& name) const {
  int functions = 0;
  for (const auto* scope = this; scope != nullptr; scope = scope->around_) {
    if (const auto found = scope->loads_.find(name); found != scope->loads_.end())
      return Place{functions, found->second.slot};
    if (scope->around_ != nullptr && scope->around_->frame_ != scope->frame_)
      ++functions;
  }
  return std::nullopt;
}

bool Symbols::is_from_outside(const std::string& name) const {
  for (const auto* scope = this; scope != nullptr; scope = scope->around_)
    if (const auto found = scope->loads_.find(name); found != scope->loads_.end())
      return found->second.kind == Load::Kind::look_up && scope->stores_.count(name) == 0;
  return true;
}

Scope Symbols::scope() const {
  Scope scope;
  for (const auto& [name, load] : loads_)
    scope.loads.push_back(load);
  return scope;
}

} // namespace llm::chat
