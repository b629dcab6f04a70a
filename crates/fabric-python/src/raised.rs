//! Errors as exceptions of Python.

use std::io;

use fabric::workload::TraceError;
use pyo3::{
    create_exception,
    exceptions::{PyMemoryError, PyOSError, PyRuntimeError, PyValueError},
    prelude::*,
};
use testbed::fabric::{
    memory::TooLarge,
    mistake::{Mistake, Place, Syntax},
};

create_exception!(
    enroute_fabric,
    InputError,
    PyValueError,
    "An invalid option, experiment, topology or trace.\n\n\
     place: file:line:column, or the option. expected, found: the value expected there, and the \
     value found; None where only the message has them."
);

/// The exception for an error: `InputError` for inputs, `OSError` for files, `MemoryError` for a
/// run that does not fit, `RuntimeError` for a violated invariant of the simulation.
pub(crate) fn exception(py: Python<'_>, error: &anyhow::Error) -> PyErr {
    let text = format!("{error:#}");
    if let Some(code) = error.downcast_ref::<io::Error>().and_then(io::Error::raw_os_error) {
        return PyOSError::new_err((code, text));
    }
    if error.is::<TooLarge>() {
        return PyMemoryError::new_err(text);
    }
    if let Some(fabric::Error::Broken { .. }) = error.downcast_ref() {
        return PyRuntimeError::new_err(text);
    }
    let exception = InputError::new_err(text);
    let Parts { place, expected, found } = parts(error);
    let value = exception.value(py);
    for (name, part) in [("place", place), ("expected", expected), ("found", found)] {
        if let Err(error) = value.setattr(name, part) {
            return error;
        }
    }
    exception
}

#[derive(Default)]
struct Parts {
    place: Option<String>,
    expected: Option<String>,
    found: Option<String>,
}

impl Parts {
    fn new(place: &str, expected: &str, found: &str) -> Self {
        let [place, expected, found] = [place, expected, found].map(|part| Some(part.to_owned()));
        Self { place, expected, found }
    }
}

fn parts(error: &anyhow::Error) -> Parts {
    let place = error.downcast_ref::<Place>().map(|place| place.0.as_str());
    if let Some(Mistake { place: own, what, expected, found }) = error.downcast_ref() {
        let own = Some(own.as_str()).filter(|own| !own.is_empty());
        return Parts::new(own.or(place).unwrap_or(what), expected, found);
    }
    if let Some(TraceError { file, line, expected, got }) = error.downcast_ref() {
        return Parts::new(&format!("{file}:{line}"), expected, got);
    }
    if let Some(Syntax { place, .. }) = error.downcast_ref() {
        return Parts { place: Some(place.clone()), ..Parts::default() };
    }
    match error.downcast_ref() {
        Some(
            fabric::Error::Topology { what, expected, got }
            | fabric::Error::Flow { what, expected, got, .. }
            | fabric::Error::Config { what, expected, got },
        ) => Parts::new(place.unwrap_or(what), expected, got),
        Some(fabric::Error::Scheme { name, known }) => {
            Parts::new(place.unwrap_or("scheme"), &format!("one of {known}"), name)
        }
        _ => Parts { place: place.map(str::to_owned), ..Parts::default() },
    }
}
