//! Numbers of devices, as a spec may give them.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::Invalid;

/// A number of devices, or a percentage of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Amount {
    /// So many.
    Number(usize),
    /// So many of a hundred.
    Percent(usize),
}

impl Amount {
    /// Of `total` devices, rounded up.
    pub fn round_up(self, total: usize) -> usize {
        match self {
            Amount::Number(n) => n,
            Amount::Percent(p) => (total * p).div_ceil(100),
        }
    }

    /// Of `total` devices, rounded down.
    pub fn round_down(self, total: usize) -> usize {
        match self {
            Amount::Number(n) => n,
            Amount::Percent(p) => total * p / 100,
        }
    }

    /// Reads what a user wrote; `least` is the least it may be.
    pub(super) fn read(
        path: &str,
        given: Option<IntOrString>,
        least: i32,
    ) -> Result<Option<Amount>, Invalid> {
        let text = match given {
            None => return Ok(None),
            Some(IntOrString::Int(n)) => {
                let fits = usize::try_from(n).ok().filter(|_| n >= least);
                let wrong = || {
                    Invalid(format!("{path} is {n}; it may be {least} or more, or a percentage"))
                };
                return fits.map(|n| Some(Amount::Number(n))).ok_or_else(wrong);
            }
            Some(IntOrString::String(text)) => text,
        };
        let percent = text.trim().strip_suffix('%').and_then(|p| p.parse::<usize>().ok());
        let fits = percent.filter(|p| *p <= 100 && i32::try_from(*p).is_ok_and(|p| p >= least));
        let wrong = || {
            Invalid(format!("{path} is {text:?}; write a number, or a percentage up to \"100%\""))
        };
        fits.map(|p| Some(Amount::Percent(p))).ok_or_else(wrong)
    }
}
