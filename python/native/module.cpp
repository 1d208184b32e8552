// assay._native: what python/assay calls. Tensors are tuples (dtype, shape, bytes), files (tensors by name, metadata).
#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <tuple>

#include "arguments/registry.hpp"
#include "files/input_file.hpp"
#include "files/shown.hpp"
#include "judge/contract/contract.hpp"
#include "kernels/gpu/gpu.hpp"
#include "language/room.hpp"
#include "oracles/core/room.hpp"
#include "python/native/judging.hpp"
#include "python/native/watched.hpp"
#include "reference/core/error.hpp"
#include "tools/baseline/baseline_change.hpp"
#include "tools/program.hpp"
#include "tools/run/device.hpp"
#include "tools/verbs/command.hpp"

namespace nb = nanobind;

namespace assay::python {

Workers& Workers::all() {
  static Workers workers;
  return workers;
}

void Workers::leave(std::thread thread) {
  const std::lock_guard lock(mutex_);
  threads_.push_back(std::move(thread));
}

void Workers::join() {
  const std::lock_guard lock(mutex_);
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

namespace {

using Metadata = std::map<std::string, std::string>;
/// (dtype, shape, bytes) by name, and what the file says of itself.
using PythonFile = std::pair<nb::dict, Metadata>;

/// A copy of what any object with the buffer protocol holds.
std::vector<std::uint8_t> bytes_of(nb::handle object) {
  Py_buffer view;
  if (PyObject_GetBuffer(object.ptr(), &view, PyBUF_C_CONTIGUOUS) != 0) throw nb::python_error();
  const auto* first = static_cast<const std::uint8_t*>(view.buf);
  std::vector<std::uint8_t> bytes(first, first + view.len);
  PyBuffer_Release(&view);
  return bytes;
}

std::size_t bytes_each(const std::string& dtype) {
  if (dtype == "F64" || dtype == "I64") return 8;
  if (dtype == "F32" || dtype == "I32") return 4;
  return dtype.starts_with("F8") || dtype == "BOOL" || dtype == "U8" ? 1 : 2;
}

Safetensors from_python(const PythonFile& file) {
  Safetensors to;
  to.metadata = file.second;
  for (const auto& [key, value] : file.first) {
    const auto name = nb::cast<std::string>(key);
    const auto tensor = nb::cast<nb::tuple>(value);
    StoredTensor& stored = to.tensors[name];
    stored.dtype = nb::cast<std::string>(tensor[0]), stored.shape = nb::cast<std::vector<int>>(tensor[1]);
    stored.bytes = bytes_of(tensor[2]);
    std::size_t count = bytes_each(stored.dtype);
    for (const int n : stored.shape) count *= static_cast<std::size_t>(n);
    require(count == stored.bytes.size(), "tensor ", name, ": expected ", count, " bytes, got ", stored.bytes.size());
  }
  return to;
}

PythonFile to_python(const Safetensors& file) {
  nb::dict tensors;
  for (const auto& [name, tensor] : file.tensors)
    tensors[name.c_str()] = nb::make_tuple(tensor.dtype, nb::tuple(nb::cast(tensor.shape)),
                                           nb::bytearray(tensor.bytes.data(), tensor.bytes.size()));
  return {tensors, file.metadata};
}

/// Moves a file into work that may be copied.
std::shared_ptr<Safetensors> shared(const PythonFile& file) { return std::make_shared<Safetensors>(from_python(file)); }

Standard standard_of(const Metadata& asked, double false_alarms, int threads) {
  Standard standard;
  const std::pair<const char*, std::string Standard::*> words[] = {{"mechanism", &Standard::mechanism},
                                                                   {"form", &Standard::form},
                                                                   {"precision", &Standard::precision},
                                                                   {"contract", &Standard::contract},
                                                                   {"tile", &Standard::tile}};
  for (const auto& [name, member] : words)
    if (const auto found = asked.find(name); found != asked.end()) standard.*member = found->second;
  standard.threads = threads, standard.false_alarms = false_alarms;
  standard.strict = asked.contains("strict"), standard.strict_dtypes = asked.contains("strict_dtypes");
  return standard;
}

nb::dict facts_of(const Room& room) {
  const auto listed = [](const std::vector<RoomFacts::Ranked>& fields) {
    nb::list list;
    for (const RoomFacts::Ranked& ranked : fields) {
      const Field& field = ranked.field;
      nb::dict facts;
      facts["name"] = std::string(field.name);
      facts["is_param"] = field.place == Field::Place::param;
      facts["required"] = field.missing == Field::Missing::error;
      facts["differentiable"] = field.differentiable;
      if (field.place != Field::Place::derived) list.append(facts);
    }
    return list;
  };
  nb::dict facts;
  facts["name"] = std::string(room.name), facts["summary"] = std::string(room.summary);
  facts["inputs"] = listed(room.inputs()), facts["outputs"] = listed(room.outputs());
  nb::list options;
  for (const std::string_view option : room.options) options.append(std::string(option));
  facts["options"] = options;
  return facts;
}

/// Whether each number of the file's tensor is judged, a byte each; None if all are.
nb::object judged_of(const Scattered& scattered) {
  std::size_t count = 1;
  for (const int n : scattered.shape) count *= static_cast<std::size_t>(n);
  if (scattered.at.size() == count) return nb::none();
  std::string judged(count, '\0');
  for (const std::size_t i : scattered.at) judged[i] = '\1';
  return nb::bytes(judged.data(), judged.size());
}

/// Parts, query rows and the seed, as CheckOptions has them.
using Sampling = std::tuple<int, int, std::optional<std::uint64_t>>;

Verdicts judge(const PythonFile& problem, const PythonFile& answer, const Metadata& asked,
               const std::vector<std::string>& tensors, double false_alarms, int threads, bool keeps,
               std::optional<double> why, const Sampling& sampling, const std::string& where,
               const nb::object& progress) {
  CheckOptions options;
  options.judge = where;
  std::tie(options.sample, options.sample_rows, options.sample_seed) = sampling;
  options.problem = asked.contains("case") ? asked.at("case") : "case";
  options.answer = asked.contains("answer") ? asked.at("answer") : "answer";
  options.standard = standard_of(asked, false_alarms, threads);
  options.tensors = tensors, options.no_cache = !keeps, options.quick = asked.contains("quick");
  return watched(
      [=, problem = shared(problem), answer = shared(answer)](const Watch& watch) {
        return Verdicts(options, std::move(*problem), std::move(*answer), why, watch);
      },
      progress);
}

/// Where a tensor is on the GPU, its precision, its shape with heads first and how many of them lie beside one another
/// in memory, by name.
using OnGpu = std::map<std::string, std::tuple<std::uintptr_t, std::string, std::vector<int>, int>>;

GpuTensors tensors_of(const OnGpu& all) {
  GpuTensors tensors;
  for (const auto& [name, where] : all) {
    const auto format = format_from(std::get<1>(where));
    require(format.has_value(), name, ": unknown precision ", std::get<1>(where));
    std::size_t count = 1;
    for (const int n : std::get<2>(where)) count *= static_cast<std::size_t>(n);
    tensors[name] = {reinterpret_cast<void*>(std::get<0>(where)),  // NOLINT(performance-no-int-to-ptr): Python's
                     *format, count, std::get<3>(where)};
  }
  return tensors;
}

/// One of our kernels, whose inputs, cotangents and results are tensors of the first GPU, on a stream of CUDA; with
/// `forward`, a half of it.
void gpu_kernel(const std::string& mechanism, std::string form, const std::string& precision,
                const std::map<std::string, Param>& params, const OnGpu& inputs, const OnGpu& cotangents,
                const OnGpu& found, std::uintptr_t stream, ForwardMemory* forward) {
  const nb::gil_scoped_release others_run;
  require(gpu() != nullptr, "assay.kernels: ", why_no_gpu());
  Problem problem;
  problem.mechanism = mechanism;
  problem.params = Params(params.begin(), params.end());
  for (const auto& [name, where] : inputs) problem.inputs[name].shape = std::get<2>(where);
  for (const auto& [name, where] : cotangents) problem.cotangents[name].shape = std::get<2>(where);
  for (const GpuRoom* room : gpu_rooms())
    if (form.empty() && room->name == mechanism) form = room->forms[0].name;
  const auto format = format_from(precision);
  require(format.has_value(), "unknown precision ", precision);
  const std::string obstacle = gpu_obstacle(mechanism, form, problem, *format);
  require(obstacle.empty(), mechanism, ": ", obstacle);
  GpuTensors given = tensors_of(inputs);
  given.merge(tensors_of(cotangents));
  run_on_gpu(*find_gpu_form(mechanism, form), problem, *format, given, tensors_of(found),
             reinterpret_cast<void*>(stream), forward);  // NOLINT(performance-no-int-to-ptr)
}

}  // namespace

void define(nb::module_& m) {
  nb::set_leak_warnings(false);  // of what a traceback holds when the interpreter ends
  const nb::exception<InputError> error(m, "InputError", PyExc_ValueError);
  error.attr("__doc__") = "Bad usage or bad input: one sentence that names the thing.";
  error.attr("__module__") = "assay";  // where it is found again, in other processes too
  nb::class_<Verdicts>(m, "Verdicts")
      .def("passed", &Verdicts::passed)
      .def("page", &Verdicts::page, nb::arg("format"), nb::arg("in_short"))
      .def("complaints", &Verdicts::complaints)
      .def("plot", &Verdicts::plot)
      .def("expected", [](const Verdicts& v, const std::string& tensor) { return to_python(v.expected(tensor)); });
  m.def("judge", &judge, nb::arg("problem"), nb::arg("answer"), nb::arg("asked"), nb::arg("tensors"),
        nb::arg("false_alarms"), nb::arg("threads"), nb::arg("keeps"), nb::arg("why").none(), nb::arg("sampling"),
        nb::arg("where"), nb::arg("progress").none());
  m.def(
      "verb",
      [](const std::vector<std::string>& words, const nb::object& progress) {
        const Said said = watched([words](const Watch& watch) { return run_verb(words, watch); }, progress);
        return nb::make_tuple(said.code, nb::bytes(said.out.data(), said.out.size()), said.err);
      },
      nb::arg("words"), nb::arg("progress").none());
  m.def(
      "oracle",
      [](const PythonFile& problem, const std::string& tier, int threads, const nb::object& progress) {
        return to_python(watched(
            [=, problem = shared(problem)](const Watch& watch) {
              return oracle_answer(std::move(*problem), "case", tier, threads, watch);
            },
            progress));
      },
      nb::arg("problem"), nb::arg("tier"), nb::arg("threads"), nb::arg("progress").none());
  m.def(
      "expect",
      [](const PythonFile& problem, const Metadata& asked, double false_alarms, int threads,
         const nb::object& progress) {
        const Standard standard = standard_of(asked, false_alarms, threads);
        return to_python(watched(
            [=, problem = shared(problem)](const Watch& watch) {
              return expectation_of(std::move(*problem), "case", standard, watch);
            },
            progress));
      },
      nb::arg("problem"), nb::arg("asked"), nb::arg("false_alarms"), nb::arg("threads"), nb::arg("progress").none());
  m.def("serialize", [](const PythonFile& file) {
    const std::vector<std::uint8_t> bytes = serialize(from_python(file));
    return nb::bytes(bytes.data(), bytes.size());
  });
  m.def("parse", [](nb::handle bytes, const std::string& where) {
    return to_python(parse_safetensors(bytes_of(bytes), where));
  });
  m.def("facts", [](const std::string& mechanism) -> std::optional<nb::dict> {
    const auto room = find_room(mechanism);
    return room == nullptr ? std::nullopt : std::optional(facts_of(*room));
  });
  m.def("forget_programs", &language::forget_programs);
  m.def("arguments", [] {
    nb::dict parts;
    for (const arguments::Argument& argument : arguments::all_arguments())
      parts[std::string(argument.name).c_str()] = arguments::name_of(argument.part);
    return parts;
  });
  m.def("asked", [](const PythonFile& file, const std::string& where) -> std::optional<nb::dict> {
    const auto asked = asked_of(from_python(file), where);
    if (!asked) return std::nullopt;
    nb::dict tensors;
    for (const auto& [name, scattered] : *asked)
      tensors[name.c_str()] =
          nb::make_tuple(nb::tuple(nb::cast(scattered.shape)), scattered.is_optional, judged_of(scattered));
    return tensors;
  });
  m.def("mechanisms", [] {
    std::vector<std::string> names;
    for (const Room* room : rooms()) names.emplace_back(room->name);
    return names;
  });
  m.def("student_tail", &student_tail);
  nb::class_<ForwardMemory>(m, "ForwardMemory").def(nb::init<>());
  m.def("gpu_kernel", &gpu_kernel, nb::arg("mechanism"), nb::arg("form"), nb::arg("precision"), nb::arg("params"),
        nb::arg("inputs"), nb::arg("cotangents"), nb::arg("found"), nb::arg("stream"), nb::arg("forward").none());
  m.def("program", [](const std::vector<std::string>& args, const std::vector<std::string>& words) {
    const nb::gil_scoped_release others_run;
    called_by(words);
    return program(command_line(), args);
  });
  m.def("join", [] {
    const nb::gil_scoped_release others_run;
    Workers::all().join();
  });
  m.attr("default_false_alarms") = false_alarm_rate;
  m.attr("__version__") = ASSAY_VERSION;
  nb::module_::import_("atexit").attr("register")(m.attr("join"));
}

}  // namespace assay::python

NB_MODULE(_native, m) { assay::python::define(m); }
