// The first lines of the page: what there is in words, and what is wrong.
#include "sections.hpp"
#include "table.hpp"

#include <apps/gpuactors/utc.hpp>
#include <apps/gpuactors/words.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace gpuactors::cli::dashboard {

void write_overview(Html& html, const Scene& scene, const std::vector<Problem>& problems) {
  {
    const auto line = html.element("p", {{"data-part", "headline"}, {"id", "headline"}});
    html.text(headline(scene.state, totals_of(scene.state)));
    if (scene.state.nodes().empty()) {
      html.text(" This starts one, where its devices are: ");
      write_command(html, "node", scene.connection);
    }
  }
  {
    const auto part = html.element("div", {{"data-part", "problems"}, {"id", "problems"}});
    if (problems.empty())
      html.leaf("p", {{"class", "good"}}, "✓ No problems.");
    else
      html.leaf("p", {{"class", "bad"}},
                fmt::format("⚠ {} problem{}:", problems.size(), problems.size() == 1 ? "" : "s"));
    if (!problems.empty()) {
      const auto list = html.element("ul");
      for (std::size_t i = 0; i < std::min(problems.size(), most_problems); ++i) {
        const auto item = html.element("li");
        html.text(problems[i].text);
        html.text(" ");
        write_command(html, problems[i].command, scene.connection);
      }
      if (problems.size() > most_problems)
        html.leaf("li", {}, fmt::format("and {} more", problems.size() - most_problems));
    }
  }
  const auto part = html.element("p", {{"data-part", "as-of"}, {"class", "soft"}});
  html.text(fmt::format("As of {} UTC. The broker at {} runs release {} since {} UTC{}. ",
                        utc_for_people(scene.now.wall), scene.broker, scene.state.release(),
                        utc_for_people(from_unix_ns(scene.state.started_unix_ns())),
                        other_releases(scene.state, ", ")));
  write_command(html, "status", scene.connection);
}

} // namespace gpuactors::cli::dashboard
