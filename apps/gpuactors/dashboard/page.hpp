// The dashboard's page: what is made of each state, and the whole of it for a browser.
#pragma once

#include "html.hpp"
#include "sections.hpp"

#include <apps/gpuactors/scraper.hpp>

#include <cstdint>
#include <map>
#include <string>

namespace gpuactors::cli::dashboard {

/// An actor whose log can be asked for.
struct ShownActor {
  v1::ActorHandle handle;
  /// Its name, or its number if it has none.
  std::string name;
  /// Of one that has ended: the node that it was on last, which has what it printed. Empty: where it is now.
  std::string ended_on{};
};

/// What one state gives: its part of the page.
struct Look {
  Html sections;
  /// The title of the page: how many problems there are.
  std::string title;
  /// The actors by number, those that have ended too: who asks for a log gives the number.
  std::map<std::uint64_t, ShownActor> actors;
};

/// Writes all sections. Pure; any thread.
[[nodiscard]] Look look_at(const Scene& scene);

/// Returns what the script exchanges: the element `main`, with the sections of the last state that came, and above them
/// whether the broker answers. Pure; any thread.
[[nodiscard]] Html main_part(const Scrape<Look>& scrape, const std::string& broker);

/// Returns the page, with `main_part` in it. Pure; any thread.
[[nodiscard]] Html whole_page(const Scrape<Look>& scrape, const std::string& broker);

} // namespace gpuactors::cli::dashboard
