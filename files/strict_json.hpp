#pragma once
// JSON that others wrote, read in time proportional to its length: no name twice in one object, no tower of brackets.
#include <cstddef>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace assay {

/// Builds a document from the events of the library's parser. Its own parser with a callback looks through the parent
/// at every closing bracket, which is quadratic in the number of objects.
template <class J>
class StrictJson final : public nlohmann::json_sax<J> {
 public:
  struct Caps {
    std::size_t depth, names;  ///< brackets in one another, names in one object
  };
  /// Says what is wrong and throws.
  using Refuse = std::function<void(const std::string& why)>;

  StrictJson(Caps caps, Refuse refuse) : caps_(caps), refuse_(std::move(refuse)) {}

  J take() && { return std::move(root_); }

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(typename J::number_integer_t value) override { return add(value); }
  bool number_unsigned(typename J::number_unsigned_t value) override { return add(value); }
  bool number_float(typename J::number_float_t value, const typename J::string_t&) override { return add(value); }
  bool string(typename J::string_t& value) override { return add(std::move(value)); }
  bool binary(typename J::binary_t&) override { return false; }
  bool start_array(std::size_t) override { return open(J::array()); }
  bool end_array() override { return close(); }
  bool start_object(std::size_t) override { return open(J::object()); }
  bool end_object() override { return close(); }
  bool key(typename J::string_t& name) override {
    std::set<std::string>& names = names_[open_.size() - 1];
    if (!names.insert(name).second) refuse_("the name '" + name + "' occurs twice in one object");
    if (names.size() > caps_.names) refuse_("more than " + std::to_string(caps_.names) + " names in one object");
    name_ = std::move(name);
    return true;
  }
  bool parse_error(std::size_t read, const std::string& token, const typename J::exception& error) override {
    // Of an empty text versions of the library say different things.
    if (read <= 1 && token.empty()) refuse_("nothing is there; expected JSON");
    // "[json.exception.parse_error.101] parse error at line 1, column 9: syntax error ..." or
    // "[json.exception.out_of_range.406] number overflow ...": the end is for people.
    std::string what = error.what();
    what.erase(0, what.find("] ") + 2);
    if (what.starts_with("parse error at")) what.erase(0, what.find(": ") + 2);
    refuse_(what);
    return false;
  }

 private:
  J& put(J&& value) {
    if (open_.empty()) return root_ = std::move(value);
    J& parent = *open_.back();
    if (parent.is_array()) return parent.template get_ref<typename J::array_t&>().emplace_back(std::move(value));
    auto& object = parent.template get_ref<typename J::object_t&>();
    if constexpr (requires { typename J::object_t::Container; }) {
      // Objects that keep their order look a name up one by one; this one is known to be new.
      typename J::object_t::Container& members = object;
      return members.emplace_back(std::move(name_), std::move(value)).second;
    } else {
      return object.emplace(std::move(name_), std::move(value)).first->second;
    }
  }
  bool add(J value) {
    put(std::move(value));
    return true;
  }
  bool open(J value) {
    if (open_.size() >= caps_.depth) refuse_("more than " + std::to_string(caps_.depth) + " brackets deep");
    // Open values stay where they are: only the innermost of them grows.
    open_.push_back(&put(std::move(value)));
    names_.resize(open_.size());
    return true;
  }
  bool close() {
    open_.pop_back(), names_.pop_back();
    return true;
  }

  Caps caps_;
  Refuse refuse_;
  J root_;
  std::vector<J*> open_;                      ///< from the outermost to the innermost
  std::vector<std::set<std::string>> names_;  ///< of each of them
  std::string name_;
};

}  // namespace assay
