//! The connections of one loop, each with a token that never names another one.

/// Names one connection of a loop: which seat it has, and how many connections had a seat before.
/// Its upper 16 bits are free for a tag, for example one of two sockets, or the worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Token(u64);

const NUMBER_BITS: u32 = 24;
const TAG_SHIFT: u32 = 48;

impl Token {
    /// Token and tag in `bits`, as [`Token::tagged`] has put them together.
    #[inline]
    pub const fn of(bits: u64) -> (Self, u16) {
        (Self(bits & ((1 << TAG_SHIFT) - 1)), (bits >> TAG_SHIFT) as u16)
    }

    /// The token with a tag, for events and notes. `u64::MAX` is the token of no connection if no
    /// tag is [`u16::MAX`].
    #[inline]
    pub const fn tagged(self, tag: u16) -> u64 {
        (tag as u64) << TAG_SHIFT | self.0
    }

    const fn number(self) -> usize {
        self.0 as usize & ((1 << NUMBER_BITS) - 1)
    }
}

/// The connections of one loop, and the list of those to be served.
///
/// The token of a connection that has left does not reach its successor in the same seat, whatever
/// holds it: an event of the same round, a list, an alarm, a note of another thread. It comes again
/// after sixteen million further connections. A loop has at most as many seats.
#[derive(Debug)]
pub struct Seats<T> {
    seats: Vec<Seat<T>>,
    free: Vec<usize>,
    /// Connections that were ever seated.
    seated: u64,
    called: Vec<Token>,
}

#[derive(Debug)]
struct Seat<T> {
    /// Of the connection that sits here, or sat here last.
    token: Token,
    /// It is on the list of those to be served.
    called: bool,
    taken: Option<T>,
}

impl<T> Default for Seats<T> {
    fn default() -> Self {
        Self { seats: Vec::new(), free: Vec::new(), seated: 0, called: Vec::new() }
    }
}

impl<T> Seats<T> {
    /// Adds the connection that `make` creates for the given token.
    ///
    /// # Errors
    /// That of `make`; then nothing is seated.
    pub fn seat<E>(&mut self, make: impl FnOnce(Token) -> Result<T, E>) -> Result<Token, E> {
        let number = self.free.last().copied().unwrap_or(self.seats.len());
        let before = self.seated & ((1 << (TAG_SHIFT - NUMBER_BITS)) - 1);
        let token = Token(before << NUMBER_BITS | number as u64);
        let seat = Seat { token, called: false, taken: Some(make(token)?) };
        match self.seats.get_mut(number) {
            Some(free) => {
                self.free.pop();
                *free = seat;
            }
            None => self.seats.push(seat),
        }
        self.seated += 1;
        Ok(token)
    }

    /// The one that `token` names, if it has not left.
    #[inline]
    pub fn get(&self, token: Token) -> Option<&T> {
        let seat = self.seats.get(token.number()).filter(|seat| seat.token == token)?;
        seat.taken.as_ref()
    }

    /// The same, to be changed.
    #[inline]
    pub fn get_mut(&mut self, token: Token) -> Option<&mut T> {
        self.find(token)?.taken.as_mut()
    }

    #[inline]
    fn find(&mut self, token: Token) -> Option<&mut Seat<T>> {
        self.seats.get_mut(token.number()).filter(|seat| seat.token == token)
    }

    /// The one that `token` names leaves.
    pub fn leave(&mut self, token: Token) -> Option<T> {
        let left = self.find(token)?.taken.take()?;
        self.free.push(token.number());
        Some(left)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (Token, &T)> {
        self.seats.iter().filter_map(|seat| Some((seat.token, seat.taken.as_ref()?)))
    }

    /// All of them, to be changed.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.seats.iter_mut().filter_map(|seat| seat.taken.as_mut())
    }

    /// Number of connections.
    #[inline]
    pub const fn len(&self) -> usize {
        self.seats.len() - self.free.len()
    }

    /// Returns whether there is no connection.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds the one that `token` names to those to be served, once.
    #[inline]
    pub fn call(&mut self, token: Token) -> Option<&mut T> {
        let seat = self.seats.get_mut(token.number()).filter(|seat| seat.token == token)?;
        let taken = seat.taken.as_mut()?;
        if !std::mem::replace(&mut seat.called, true) {
            self.called.push(token);
        }
        Some(taken)
    }

    /// Calls all of them.
    pub fn call_all(&mut self) {
        for number in 0..self.seats.len() {
            self.call(self.seats[number].token);
        }
    }

    /// Returns whether any connection is called.
    #[inline]
    pub fn is_called(&self) -> bool {
        !self.called.is_empty()
    }

    /// Takes the list of those that are called. Each counts as called until [`Seats::end_turn`].
    #[inline]
    pub fn take_called(&mut self) -> Vec<Token> {
        std::mem::take(&mut self.called)
    }

    /// Ends the turn of the connection named by `token`: it can be called again.
    #[inline]
    pub fn end_turn(&mut self, token: Token) -> Option<&mut T> {
        let seat = self.find(token)?;
        seat.called = false;
        seat.taken.as_mut()
    }

    /// Ends the turn of all that were `called`, and reuses the memory of the list.
    #[inline]
    pub fn end_round(&mut self, mut called: Vec<Token>) {
        if self.called.is_empty() {
            called.clear();
            self.called = called;
        }
    }

    /// All of them, when their loop has ended.
    pub fn into_values(self) -> impl Iterator<Item = T> {
        self.seats.into_iter().filter_map(|seat| seat.taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seat(seats: &mut Seats<char>, name: char) -> Token {
        seats.seat(|_| Ok::<_, ()>(name)).expect("there is room")
    }

    #[test]
    fn a_token_of_a_connection_that_left_does_not_reach_its_successor() {
        let mut seats = Seats::default();
        let [first, other] = ['a', 'b'].map(|name| seat(&mut seats, name));
        seats.call(first);
        assert_eq!(seats.leave(first), Some('a'));
        let second = seat(&mut seats, 'c');
        assert_eq!(second.number(), first.number(), "the seat is used again");
        assert_eq!(seats.get(first), None);
        assert_eq!(seats.call(first), None);
        assert_eq!(seats.end_turn(first), None);
        assert_eq!(seats.leave(first), None);
        assert_eq!(seats.get(second), Some(&'c'));
        let called = seats.take_called();
        assert!(called.iter().all(|&token| seats.get(token).is_none()), "its turn is gone");
        assert_eq!((seats.get(other), seats.is_empty()), (Some(&'b'), false));
    }

    #[test]
    fn a_connection_is_called_once_until_its_turn_is_over() {
        let mut seats = Seats::default();
        let token = seat(&mut seats, 'a');
        seats.call(token);
        seats.call(token);
        let called = seats.take_called();
        assert_eq!(called, [token]);
        seats.call(token);
        assert!(!seats.is_called(), "its turn is not over");
        seats.end_turn(token);
        seats.call_all();
        seats.end_round(called);
        assert_eq!(seats.take_called(), [token]);
    }

    #[test]
    fn what_cannot_be_made_takes_no_seat() {
        let mut seats = Seats::<char>::default();
        assert_eq!(seats.seat(|_| Err("no")), Err("no"));
        assert!(seats.is_empty());
        let token = seat(&mut seats, 'a');
        seats.leave(token);
        assert_eq!(seats.seat(|_| Err("no")), Err("no"));
        assert!(seats.is_empty());
        assert_ne!(seat(&mut seats, 'b'), token);
        assert!(seats.into_values().eq(['b']));
    }

    #[test]
    fn a_tag_is_told_apart_from_its_token() {
        let mut seats = Seats::default();
        let tokens: Vec<_> = (0..3).map(|_| seat(&mut seats, 'a')).collect();
        for token in tokens {
            for tag in [0, 1, u16::MAX] {
                assert_eq!(Token::of(token.tagged(tag)), (token, tag));
            }
        }
    }
}
